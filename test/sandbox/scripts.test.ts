import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, messages, packageRoot, resultOf, runOnce, startSandbox } from './harness.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

describe('the entry (behaviour.md 1)', () => {
  it.each([
    ['export { x as main }', 'const f = (a) => ({ hello: a.name }); export { f as main };', 'module'],
    ['export function main', 'export function main(a) { return { hello: a.name }; }', 'module'],
    ['export async function main', 'export async function main(a) { return { hello: a.name }; }', 'module'],
    ['export const main', 'export const main = async (a) => ({ hello: a.name });', 'module'],
    ['export default', 'export default async (a) => ({ hello: a.name });', 'module'],
    ['a byte order mark', '\uFEFFexport const main = (a) => ({ hello: a.name });', 'module'],
    ['globalThis.main', 'globalThis.main = async function (a) { return { hello: a.name }; };', 'script'],
    ['a top-level function main', 'function main(a) { return { hello: a.name }; }', 'script'],
    [
      'a script that ends with a value',
      'var main = (a) => ({ hello: a.name }); ({ toString() { throw 1; } })',
      'script',
    ],
  ] as const)('%s', async (_, script, format) => {
    expect(await sandbox.check(script, 256)).toEqual({ ok: true, format });
    expect(resultOf(await runOnce(sandbox, script, { args: { name: 'you' }, format }))).toEqual({ hello: 'you' });
  });

  it('prefers the export main, then the default export, then globalThis.main', async () => {
    const all = 'globalThis.main = () => 3; export default () => 2; export const main = () => 1;';
    expect(resultOf(await runOnce(sandbox, all))).toBe(1);
    expect(resultOf(await runOnce(sandbox, 'globalThis.main = () => 3; export default () => 2;'))).toBe(2);
    expect(resultOf(await runOnce(sandbox, 'globalThis.main = () => 3; export const other = 1;'))).toBe(3);
  });

  it('fails without a main and with a syntax error, both as USER_NON_RUNTIME', async () => {
    const none = failureOf(await runOnce(sandbox, 'export const x = 1;'));
    expect(none.error).toMatchObject({ code: 'INVALID_SCRIPT', kind: 'USER_NON_RUNTIME' });
    expect(none.error.message).toMatch(/no main/);
    const syntax = failureOf(await runOnce(sandbox, 'export function main( {', { format: 'module' }));
    expect(syntax.error).toMatchObject({ name: 'SyntaxError', code: 'INVALID_SCRIPT', kind: 'USER_NON_RUNTIME' });
    expect(syntax.error.stack).toContain('main@1.js:1:');
  });

  it('supports top-level await that settles by itself, and reports what the top level throws', async () => {
    const awaiting = 'const x = await Promise.resolve(41); export const main = () => x + 1;';
    expect(await sandbox.check(awaiting, 256)).toEqual({ ok: true, format: 'module' });
    expect(resultOf(await runOnce(sandbox, awaiting))).toBe(42);
    const throwing = failureOf(
      await runOnce(sandbox, '\nthrow new RangeError("top"); export function main() {}', { format: 'module' }),
    );
    expect(throwing.error).toMatchObject({ name: 'RangeError', message: 'top', kind: 'USER_RUNTIME' });
    expect(throwing.error.stack).toBe('RangeError: top\n    at main@1.js:2:7');
  });

  it.each(['styles-export-default.js', 'styles-globalthis-main.js'])('runs the bundle %s', async (file) => {
    const bundle = readFileSync(join(packageRoot, 'test/fixtures/bundles', file), 'utf8');
    expect(resultOf(await runOnce(sandbox, bundle, { args: { name: 'you' } }))).toEqual({ hello: 'you' });
  });

  it('says so when main waits for what can never settle', async () => {
    const { error } = failureOf(await runOnce(sandbox, 'export const main = () => new Promise(() => {});'));
    expect(error.message).toMatch(/can never settle/);
  });
});

describe('check', () => {
  it.each([
    ['a syntax error', 'export function main() {\n  return 1 +;\n}', /does not compile.*line 2, column 13/, 2, 13],
    ['a syntax error in a script', 'function main() {\n  return )\n}', /does not compile/, 2, 10],
    ['a throw at the top level', '\n\nthrow new Error("boo");\nexport const main = 1;', /threw Error: boo/, 3, 7],
    ['a throw of a value', 'throw 17; export const main = 1;', /could not|threw/, null, null],
    [
      'a host call at the top level',
      'tailor.workflow.execJobFunction("x"); export function main() {}',
      /refused/,
      1,
      17,
    ],
    ['a missing main', 'export const x = 1;', /no main/, null, null],
    [
      'a static import',
      'export const a = 1;\n  import x from "lodash";\nexport function main() {}',
      /'lodash'.*one file/,
      2,
      3,
    ],
    ['a re-export', 'export * from "./x.js";', /one file/, 1, 1],
    ['a dynamic import', 'export async function main() {\n return import("node:fs");\n}', /'node:fs'.*one file/, 2, 9],
    [
      'an endless loop',
      'export function main() {}\nfor (;;);',
      /CPU limit exceeded: used \d+ ms of 1000 ms limit/,
      null,
      null,
    ],
    [
      'endless memory',
      'const a = []; for (;;) a.push(new Uint8Array(1 << 24)); export const main = 1;',
      /Memory limit exceeded: used \d+ MB of 256 MB limit/,
      null,
      null,
    ],
    [
      'a generator',
      'export function* main() { yield 1; }',
      /main is a generator function.*make it a function/,
      null,
      null,
    ],
    [
      'an asynchronous generator',
      'globalThis.main = async function* () {};',
      /main is a generator function/,
      null,
      null,
    ],
    ['a class', 'export default class Main {}', /main is a class, which cannot be called/, null, null],
    [
      'top-level await of nothing',
      'await new Promise(() => {}); export const main = () => 1;',
      /initiali.*await inside main instead/,
      null,
      null,
    ],
  ])('refuses %s', async (_, script, message, line, column) => {
    const check = await sandbox.check(script, 256);
    expect(check).toMatchObject({ ok: false, message: expect.stringMatching(message) });
    if (!check.ok && line !== null) expect({ line: check.line, column: check.column }).toEqual({ line, column });
  });

  it('evaluates a script under the memory limit that it will run with', async () => {
    const script = 'const kept = new Float64Array(5 << 20).fill(1.5); export const main = () => kept.length;';
    expect(await sandbox.check(script, 256)).toMatchObject({ ok: true });
    expect(await sandbox.check(script, 32)).toMatchObject({
      ok: false,
      message: expect.stringMatching(/Memory limit exceeded: used \d+ MB of 32 MB limit/),
    });
  });

  it('leaves the sandbox unharmed and works for one workspace again and again', async () => {
    for (let i = 0; i < 5; i++) {
      expect(await sandbox.check(`export const main = () => ${i};`, 256, 'w1')).toEqual({ ok: true, format: 'module' });
    }
  });

  it('does not mistake a stray rejection for a throw (D34)', async () => {
    const script = 'Promise.reject(new Error("stray")); export const main = () => 1;';
    expect(await sandbox.check(script, 256)).toEqual({ ok: true, format: 'module' });
    expect(resultOf(await runOnce(sandbox, script))).toBe(1);
  });
});

describe('globals', () => {
  it('gives timers, in order, with microtasks between them', async () => {
    const script = `export async function main() {
      const seen = [];
      const { promise, resolve } = Promise.withResolvers();
      setTimeout((a) => { seen.push('b' + a); queueMicrotask(() => seen.push('micro')); }, 200, 1);
      setTimeout(() => { seen.push('c'); resolve(); }, 201);
      setTimeout(() => seen.push('a'), 1);
      clearTimeout(setTimeout(() => seen.push('never'), 2));
      let n = 0;
      const ticks = Promise.withResolvers();
      const every = setInterval(() => { if (++n === 3) { clearInterval(every); ticks.resolve(); } }, 5);
      await ticks.promise;
      await promise;
      return seen;
    }`;
    expect(resultOf(await runOnce(sandbox, script))).toEqual(['a', 'b1', 'micro', 'c']);
  });

  it('answers getInvoker without a host call', async () => {
    const script = 'export const main = () => tailor.context.getInvoker();';
    expect(resultOf(await runOnce(sandbox, script))).toBeNull();
    const invoker = { id: 'u1', type: 'user', workspaceId: 'w', attributes: [], attributeMap: {} };
    const run = await runOnce(sandbox, script, { invoker });
    expect(resultOf(run)).toEqual(invoker);
    expect(run.calls).toEqual([]);
  });

  it('checks what TailorErrors is made of', async () => {
    const script = `export function main() {
      const text = (f) => { try { f(); } catch (e) { return e.name + '|' + e.message; } };
      const e = new TailorErrors([{ message: 'm', path: ['a'] }]);
      return [e instanceof Error, e.message, e.errors,
        text(() => new TailorErrors('x')),
        text(() => new TailorErrors([{ path: [] }])),
        text(() => new TailorErrors([{ message: 'm', path: 'a' }])),
        String(new TailorErrorMessage('hi'))];
    }`;
    expect(resultOf(await runOnce(sandbox, script))).toEqual([
      true,
      'TailorErrors: {"errors":[{"message":"m","path":["a"]}]}',
      [{ message: 'm', path: ['a'] }],
      'TypeError|TailorErrors: errors must be an array',
      'TypeError|TailorErrors: errors[0].message must be a string',
      'TypeError|TailorErrors: errors[0].path must be an array',
      'TailorErrorMessage: hi',
    ]);
  });

  it('formats console lines and keeps their level', async () => {
    const script = `export function main() {
      console.log('%s is %d of %i, %o 100%', 'a', 1.5, 2.9, { x: 1 }, 'rest', [1, 'two'], null, undefined, 3n);
      console.debug(new Map([['k', new Set([1])]]), new Date(0), /x/g, () => 1, Symbol('s'));
      console.info({ a: { b: { c: { d: { e: 1 } } } }, get g() { throw 1; } });
      const cycle = { name: 'c' }; cycle.self = cycle;
      console.warn(cycle);
      class Point { x = 1 }
      console.error(new Point());
      console.log();
    }`;
    const { logs } = await runOnce(sandbox, script);
    expect(logs.map(({ level, message }) => [level, message])).toEqual([
      ['info', "a is 1.5 of 2, { x: 1 } 100% rest [ 1, 'two' ] null undefined 3n"],
      ['debug', "Map(1) { 'k' => Set(1) { 1 } } 1970-01-01T00:00:00.000Z /x/g [Function (anonymous)] Symbol(s)"],
      ['info', '{ a: { b: { c: [Object] } }, g: [Getter] }'],
      ['warn', "<ref *1> { name: 'c', self: [Circular *1] }"],
      ['error', 'Point { x: 1 }'],
      ['info', ''],
    ]);
  });

  it('gives tailor.logger lines attributes, within its bounds', async () => {
    const script = `export function main() {
      tailor.logger.setAttributes({ run: 1 });
      tailor.logger.info('hello', { user: 'u', long: 'x'.repeat(5000), n: null });
      const text = (f) => { try { f(); } catch (e) { return e.name; } };
      return [text(() => tailor.logger.info('x', Object.fromEntries(Array.from({ length: 33 }, (_, i) => ['k' + i, i])))),
        text(() => tailor.logger.info('x', { ['k'.repeat(129)]: 1 }))];
    }`;
    const run = await runOnce(sandbox, script);
    expect(resultOf(run)).toEqual(['TypeError', 'TypeError']);
    expect(run.logs).toHaveLength(1);
    const attributes = JSON.parse(run.logs[0]?.attributes ?? '{}') as Record<string, unknown>;
    expect(attributes).toMatchObject({ run: 1, user: 'u', n: null });
    expect(String(attributes.long).length).toBe(4096);
  });

  it('logs an unhandled rejection and a throw in a timer, and fails nothing (D34)', async () => {
    const script = `export async function main() {
      Promise.reject(new Error('nobody waits'));
      setTimeout(() => { throw new Error('in a timer'); }, 1);
      await new Promise((r) => setTimeout(r, 20));
      return 'fine';
    }`;
    const run = await runOnce(sandbox, script);
    expect(resultOf(run)).toBe('fine');
    expect(messages(run.logs)[0]).toMatch(/Uncaught .*nobody waits/);
    expect(messages(run.logs)[1]).toMatch(/Uncaught .*in a timer/);
  });
});
