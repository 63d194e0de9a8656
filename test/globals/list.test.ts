import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { resultOf, runOnce, startSandbox } from '../sandbox/harness.ts';

/** docs/globals.md against a real isolate, and against Node. */
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const page = readFileSync(join(packageRoot, 'docs', 'globals.md'), 'utf8');

/** The rows of the table below a heading. */
function tableBelow(heading: string): string[][] {
  const section = page.slice(page.indexOf(`\n${heading}\n`) + heading.length + 2);
  const table = /(?:^\|.*\n)+/m.exec(section)![0];
  const cells = (line: string) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim());
  return table.trimEnd().split('\n').slice(2).map(cells);
}
const quoted = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, text]) => text!);

/** Every global of a realm with its members: `static x` of a class itself, `x` of its prototype or of an object. */
function membersOfGlobals(): Record<string, string[]> {
  const members: Record<string, string[]> = {};
  const own = (holder: object, before: string) =>
    Object.getOwnPropertyNames(holder)
      .filter((key) => !['length', 'name', 'prototype', 'constructor', 'arguments', 'caller'].includes(key))
      .map((key) => before + key);
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    const value = (globalThis as Record<string, unknown>)[name];
    const prototype = typeof value === 'function' ? (value.prototype as object | undefined) : undefined;
    members[name] = [];
    if (typeof value === 'function') members[name].push(...own(value, 'static '));
    if (prototype !== undefined) members[name].push(...own(prototype, ''));
    if (typeof value === 'object' && value !== null) members[name].push(...own(value, ''));
  }
  return members;
}

const language = new Set(runInNewContext('Object.getOwnPropertyNames(globalThis)') as string[]);
const inIsolate = async () =>
  resultOf(
    await runOnce(sandbox, `${membersOfGlobals.toString()} export const main = () => membersOfGlobals();`),
  ) as Record<string, string[]>;

test('every global that is not of the language stands in the list, and no other', async () => {
  const here = Object.keys(await inIsolate()).filter((name) => !language.has(name) && name !== 'console');
  const listed = tableBelow('## The list').map(([name]) => quoted(name!)[0]!);
  expect(listed.filter((name) => name !== 'console').toSorted()).toEqual(here.toSorted());
  expect(listed).toContain('console');
});

test('what Node has and we have not is listed, and nothing else is missing', async () => {
  const here = await inIsolate();
  const node = membersOfGlobals();
  const differences = Object.keys(here)
    .filter((name) => node[name] !== undefined && !language.has(name))
    .map((name): [string, string[]] => [
      name,
      node[name]!.filter((member) => !here[name]!.includes(member)).toSorted(),
    ]);
  const listed = tableBelow('## The list').map(([name, , missing]) => [quoted(name!)[0], quoted(missing!).toSorted()]);
  const ofNode = listed.filter(([name]) => differences.some(([other]) => other === name));
  expect(Object.fromEntries(ofNode)).toEqual(Object.fromEntries(differences));
});

test('the globals of Node that are not there are listed with a reason', async () => {
  const here = await inIsolate();
  const vitest = /^(?:__vite|__vitest|VITEST)/;
  const missing = Object.keys(membersOfGlobals()).filter((name) => here[name] === undefined && !vitest.test(name));
  const listed = tableBelow('### What is not there').flatMap(([names, reason]) => {
    expect(reason).not.toBe('');
    return quoted(names!);
  });
  expect(missing.filter((name) => !listed.includes(name))).toEqual([]);
  expect(listed.filter((name) => here[name] !== undefined)).toEqual([]);
});

test('they show themselves as built-in: names, tags, descriptors and sources', async () => {
  const wrong = resultOf(
    await runOnce(
      sandbox,
      `export function main({ names }) {
        const wrong = [];
        for (const name of names) {
          const value = globalThis[name];
          const { value: plain, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(globalThis, name);
          if (plain !== value || !writable || enumerable || !configurable) wrong.push(name + ' descriptor');
          if (typeof value !== 'function') continue;
          if (value.name !== name) wrong.push(name + ' is named ' + value.name);
          if (String(value) !== 'function ' + name + '() { [native code] }') wrong.push(name + ' shows ' + String(value).slice(0, 60));
          const { prototype } = value;
          if (prototype === undefined || name.startsWith('Tailor')) continue;
          if (Object.prototype.toString.call(prototype) !== '[object ' + name + ']') wrong.push(name + ' tag');
          for (const key of Object.getOwnPropertyNames(prototype)) {
            if (key === 'constructor') continue;
            const member = Object.getOwnPropertyDescriptor(prototype, key);
            if (!member.enumerable) wrong.push(name + '.' + key + ' is not enumerable');
            const code = member.value ?? member.get;
            if (typeof code === 'function' && !String(code).endsWith('() { [native code] }')) wrong.push(name + '.' + key + ' shows its source');
          }
        }
        return wrong;
      }`,
      {
        args: {
          names: tableBelow('## The list')
            .map(([name]) => quoted(name!)[0])
            .filter((name) => !/^tailor/i.test(name!)),
        },
      },
    ),
  );
  expect(wrong).toEqual([]);
});
