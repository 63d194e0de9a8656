import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { serveFlags } from '../../src/cli/program.ts';
import { configSchema } from '../../src/config.ts';
import { limits } from '../../src/limits.ts';
import { packageRoot } from '../../src/paths.ts';

const read = (file: string) => readFileSync(join(packageRoot, file), 'utf8');
const pages = ['README.md', 'CHANGELOG.md', ...globSync('docs/*.md', { cwd: packageRoot })];

/** Cells of every table row of a page, without heads and rules. */
const rows = (page: string): string[][] =>
  read(page)
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| ---'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );

const unquoted = (cell: string | undefined) => /^`([^`]+)`$/.exec(cell ?? '')?.[1];

/** A limit as the documentation writes it; the unit stands at the end of its name. */
function written(name: string, value: number): string {
  if (name.endsWith('Mb')) return `${value} MB`;
  if (name.endsWith('Seconds')) return `${value} s`;
  if (name.endsWith('Ms')) return value % 3_600_000 === 0 ? `${value / 3_600_000} h` : `${value / 1_000} s`;
  if (name.endsWith('Bytes')) {
    if (value < 1_024) return `${value} B`;
    if (value < 1_048_576) return `${value / 1_024} KiB`;
    return value < 1_073_741_824 ? `${value / 1_048_576} MiB` : `${value / 1_073_741_824} GiB`;
  }
  return value.toLocaleString('en-US');
}

/** Name and value of the limits that a page's tables hold. */
function limitsOf(page: string): Record<string, string> {
  const found = rows(page).filter((cells) => Object.hasOwn(limits, unquoted(cells[2]) ?? ''));
  return Object.fromEntries(found.map(([, value, name]) => [unquoted(name)!, value!]));
}

const all = Object.fromEntries(Object.entries(limits).map(([name, value]) => [name, written(name, value)]));

test('docs/limits.md holds every limit, with its number', () => {
  expect(limitsOf('docs/limits.md')).toEqual(all);
});

test('the limits in the README are those of the code', () => {
  const shown = limitsOf('README.md');
  expect(Object.keys(shown).length).toBeGreaterThan(5);
  expect(all).toMatchObject(shown);
});

test('docs/configuration.md holds every variable with its flag and its default', () => {
  const documented = rows('docs/configuration.md').flatMap(([variable, flag, value]) => {
    return unquoted(variable) === undefined ? [] : [{ variable: unquoted(variable), flag: unquoted(flag), value }];
  });
  const known = Object.keys(configSchema.shape);
  expect(documented.map(({ variable }) => variable).sort()).toEqual(known.toSorted());
  for (const { variable, flag, value } of documented) {
    expect(serveFlags.find((each) => each.variable === variable)?.flags.split(' ')[0], variable).toBe(flag);
    const fixed = unquoted(value);
    if (fixed === undefined) continue;
    const parsed = configSchema.parse({}) as Record<string, unknown>;
    expect(String(parsed[variable!]), variable).toBe(fixed);
  }
});

test('every flag of serve stands for a variable that there is', () => {
  expect(serveFlags.map(({ variable }) => variable).sort()).toEqual(Object.keys(configSchema.shape).sort());
});

test('every link and every source file that a page names exists', () => {
  const missing = pages.flatMap((page) => {
    const text = read(page);
    const links = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, link]) => join(dirname(page), link!));
    const files = [...text.matchAll(/`((?:src|test|examples|runtime-globals|docs)\/[\w./-]+)`/g)].map(
      ([, file]) => file!,
    );
    return [...links, ...files]
      .filter((file) => !existsSync(join(packageRoot, file)))
      .map((file) => `${page}: ${file}`);
  });
  expect(missing).toEqual([]);
});
