import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';

const span = (letter: string, first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => `${letter}${first + index}`);

/** Rules that have a test (docs/architecture.md, docs/durability.md). */
const rules = [...span('E', 1, 7), ...span('D', 1, 34)];

/** The titles of tests and their groups: a text that is a call's first argument, right before a function. */
const title = /\(\s*(['"`])((?:\\.|(?!\1).)*)\1,\s*(?:\{[^{}]*\},\s*)?(?:async\b|function\b|\(|\w+ =>)/gs;
const titles = globSync('test/**/*.test.ts', { cwd: packageRoot }).flatMap((file) =>
  [...readFileSync(join(packageRoot, file), 'utf8').matchAll(title)].map(([, , text]) => text!),
);

test('every rule is cited by the title of a test', () => {
  expect(titles.length).toBeGreaterThan(300);
  const cited = new Set(titles.flatMap((text) => text.match(/\b[A-Z]\d+\b/g) ?? []));
  expect(rules.filter((rule) => !cited.has(rule))).toEqual([]);
});

test('a rule that a title cites is one of the documented ones', () => {
  const documented = new Set(
    ['docs/architecture.md', 'docs/durability.md']
      .flatMap((page) => readFileSync(join(packageRoot, page), 'utf8').split('\n'))
      .flatMap((line) => /^\| ([A-Z]\d+(?:(?:,| -) [A-Z]\d+)*) +\|/.exec(line)?.[1] ?? [])
      .flatMap((ids) => {
        const [first, last] = ids.split(' - ');
        return last === undefined ? ids.split(', ') : span(first![0]!, Number(first!.slice(1)), Number(last.slice(1)));
      }),
  );
  expect(rules.filter((rule) => !documented.has(rule))).toEqual([]);
  const cited = titles.flatMap((text) => text.match(/\b[EDSP]\d+\b/g) ?? []);
  expect(cited.filter((rule) => !documented.has(rule))).toEqual([]);
});
