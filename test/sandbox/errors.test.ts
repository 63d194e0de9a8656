import { transform } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, resultOf, runOnce, startSandbox } from './harness.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const source = `type Input = { items: number[] };

function sumOf(input: Input): number {
  if (input.items === undefined) throw new RangeError('no items');
  return input.items.length;
}

export async function main(input: Input) {
  return sumOf(input);
}
`;

const minify = (sourcemap: 'inline' | 'external') =>
  transform(source, { loader: 'ts', minify: true, format: 'esm', sourcemap, sourcefile: 'src/jobs/sum.ts' });

describe('errors of a script', () => {
  it('leave with name, message and stack, without a frame of the host', async () => {
    const { error, treeGone } = failureOf(await runOnce(sandbox, `export function main() {\n  null.x;\n}`));
    expect(error).toEqual({
      name: 'TypeError',
      message: "Cannot read properties of null (reading 'x')",
      stack: "TypeError: Cannot read properties of null (reading 'x')\n    at main (main@1.js:2:8)",
      kind: 'USER_RUNTIME',
    });
    expect(treeGone).toBe(false);
  });

  it.each([
    ['a string', `throw 'just text'`, { name: 'Error', message: 'just text' }],
    ['undefined', 'throw undefined', { name: 'Error', message: 'undefined' }],
    [
      'an object with a message',
      `throw { message: 'm', code: 'MEMORY_LIMIT_EXCEEDED' }`,
      { name: 'Error', message: 'm' },
    ],
    ['a null-prototype object', 'throw Object.create(null)', { name: 'Error' }],
    ['a revoked proxy', 'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy', { name: 'Error' }],
    [
      'getters that throw',
      `throw Object.defineProperties(new Error('m'), { stack: { get() { throw 1; } }, name: { get() { throw 2; } } })`,
      { name: 'Error', message: 'm', stack: '' },
    ],
    [
      'a class of its own',
      `class Mine extends Error { name = 'Mine' }; throw new Mine('own')`,
      { name: 'Mine', message: 'own' },
    ],
    [
      'a code of its own',
      `throw Object.assign(new Error('m'), { code: 'MEMORY_LIMIT_EXCEEDED' })`,
      { name: 'Error', message: 'm' },
    ],
    [
      'TailorErrors',
      `throw new TailorErrors([{ message: 'm', path: ['a'] }])`,
      { name: 'TailorErrors', message: 'TailorErrors: {"errors":[{"message":"m","path":["a"]}]}' },
    ],
  ])('of any shape are told: %s', async (_, code, expected) => {
    const { error } = failureOf(await runOnce(sandbox, `export async function main() { ${code}; }`));
    expect(error).toMatchObject({ ...expected, kind: 'USER_RUNTIME' });
    expect(error.code).toBeUndefined();
  });

  it('are bounded and storable (D33)', async () => {
    const { error } = failureOf(
      await runOnce(
        sandbox,
        `export function main() { const e = new Error('\\0\\ud800' + 'm'.repeat(1e6)); e.name = 'n'.repeat(1e5); e.stack = 's'.repeat(1e6); throw e; }`,
      ),
    );
    expect(Buffer.byteLength(error.name)).toBeLessThanOrEqual(256);
    expect(Buffer.byteLength(error.message)).toBeLessThanOrEqual(8 * 1024);
    expect(Buffer.byteLength(error.stack)).toBeLessThanOrEqual(32 * 1024);
    expect(error.message.slice(0, 3)).toBe('\ufffd\ufffdm');
  });

  it('with a looping stack getter end at the CPU limit', async () => {
    const script = `export function main() { throw Object.defineProperty(new Error('m'), 'stack', { get() { for (;;); } }); }`;
    const { error } = failureOf(await runOnce(sandbox, script, { limits: { cpuMs: 200 } }));
    expect(error.message).toMatch(/^CPU limit exceeded: used \d+ ms of 200 ms limit$/);
  });
});

describe("a failed job function's error", () => {
  const child = { job: `export function main() {\n  throw new RangeError('child failed');\n}` };

  it('is thrown in the caller with its name, message and stack', async () => {
    const script = `export function main() {
      try { tailor.workflow.execJobFunction('job'); }
      catch (e) { return [e instanceof RangeError, e.name, e.message, e.stack, String(e), Object.keys(e)]; }
    }`;
    expect(resultOf(await runOnce(sandbox, script, { jobs: child }))).toEqual([
      true,
      'RangeError',
      'child failed',
      'RangeError: child failed\n    at main (job@1.js:2:9)',
      'RangeError: child failed',
      [],
    ]);
  });

  it.each([
    ['itself', `tailor.workflow.execJobFunction('ok'); tailor.workflow.execJobFunction('job');`, 1],
    [
      'as a cause',
      `try { tailor.workflow.execJobFunction('job'); } catch (cause) { tailor.workflow.execJobFunction('ok'); throw new Error('outer', { cause }); }`,
      0,
    ],
    [
      'in an AggregateError',
      `const all = []; for (const n of ['ok', 'job', 'ok']) { try { tailor.workflow.execJobFunction(n); } catch (e) { all.push(e); } } throw new AggregateError(all);`,
      1,
    ],
    [
      'through Promise.all',
      `await Promise.all(['ok', 'job', 'ok'].map(async (n) => tailor.workflow.execJobFunction(n)));`,
      1,
    ],
    [
      'caught, with another thrown',
      `try { tailor.workflow.execJobFunction('job'); } catch {} throw new Error('own');`,
      null,
    ],
  ])('names the failing position: %s (D9)', async (_, code, position) => {
    const jobs = { ...child, ok: 'export const main = () => 1;' };
    const { failingPosition } = failureOf(await runOnce(sandbox, `export async function main() { ${code} }`, { jobs }));
    expect(failingPosition).toBe(position);
  });

  it('carries a code of ours through, and decides the kind', async () => {
    const { error } = failureOf(
      await runOnce(sandbox, `export const main = () => tailor.workflow.execJobFunction('nope');`),
    );
    expect(error).toMatchObject({
      code: 'JOB_FUNCTION_NOT_FOUND',
      message: 'No job function nope',
      kind: 'USER_RUNTIME',
    });
  });
});

describe("the code of an error of ours is not the script's to choose", () => {
  const unknown = (then: string) =>
    `export function main() { try { tailor.workflow.execJobFunction('nope'); } catch (e) { ${then}; throw e; } }`;

  it.each([
    ['another code of the table', `e.code = 'INTERNAL'`],
    ['no code at all', `e.code = 'what\\0ever'`],
    ['20 MB', `e.code = 'x'.repeat(20e6)`],
    ['a deleted one', 'delete e.code'],
    ['a getter', `Object.defineProperty(e, 'code', { get: () => 'INTERNAL' })`],
  ])('%s', async (_, then) => {
    const { error } = failureOf(await runOnce(sandbox, unknown(then)));
    expect(error).toMatchObject({ code: 'JOB_FUNCTION_NOT_FOUND', kind: 'USER_RUNTIME' });
  });

  it('and an error of its own has none, whatever it is made of', async () => {
    const { error } = failureOf(
      await runOnce(sandbox, unknown(`const own = new Error('own'); own.code = e.code; throw Object.create(own)`)),
    );
    expect(error).toMatchObject({ message: 'own', kind: 'USER_RUNTIME' });
    expect(error.code).toBeUndefined();
  });
});

describe('source maps', () => {
  const mapped = 'RangeError: no items\n    at sumOf (src/jobs/sum.ts:4:40)\n    at main (src/jobs/sum.ts:9:10)';
  const places = (stack: string) => stack.match(/src\/jobs\/sum\.ts:\d+:\d+/g);

  it('map a minified bundle by its inline map', async () => {
    const { code } = await minify('inline');
    const { error } = failureOf(await runOnce(sandbox, code, { fileName: 'sum@3.js' }));
    expect(places(error.stack)).toEqual(places(mapped));
    expect(error.stack).not.toContain('sum@3.js');
  });

  it('map it by the map uploaded beside it, which is only asked for when it is needed', async () => {
    const { code, map } = await minify('external');
    const { error } = failureOf(await runOnce(sandbox, code, { fileName: 'sum@3.js', sourceMap: map }));
    expect(places(error.stack)).toEqual(places(mapped));
  });

  it('are applied once to an error that passes through its caller', async () => {
    const { code, map } = await minify('external');
    // The caller has the same map and file name, so a second mapping would move the frames.
    const caller = `export function main(a) { return a.deep ? tailor.workflow.execJobFunction('main', {}) : inner(a); }`;
    const run = await runOnce(sandbox, caller, {
      args: { deep: true },
      jobs: { main: code },
      sourceMap: map,
      fileName: 'main@1.js',
    });
    expect(places(failureOf(run).error.stack)).toEqual(places(mapped));
  });

  it.each([
    ['longer than a stack may be', 'y'.repeat(3e6), /^ {4}at .*\(y{512}:1:\d+\)/m],
    ['not storable, and looking like frames', 'a\0b\ud800\n    at root (file:///etc/passwd:1:1)', /a.b.. {4}at root/],
  ])('leave a bounded, storable stack of as many frames when their sources are %s (D33)', async (_, name, frame) => {
    const depth = 80;
    const script = `Error.stackTraceLimit = Infinity;
export const main = (n) => { if (n === 0) throw new Error('deep'); else main(n - 1); };
`;
    const map = JSON.stringify({ version: 3, sources: [name], names: [], mappings: 'AAAA;AAAA' });
    const inline = `${script}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(map).toString('base64')}`;
    for (const run of [
      runOnce(sandbox, inline, { args: depth }),
      runOnce(sandbox, script, { args: depth, sourceMap: map }),
    ]) {
      const { stack } = failureOf(await run).error;
      expect(Buffer.byteLength(stack)).toBeLessThanOrEqual(32 * 1024);
      expect(stack).not.toMatch(/\0/);
      expect(stack.isWellFormed()).toBe(true);
      expect(stack).toMatch(frame);
      const lines = stack.split('\n').slice(1);
      expect(lines.every((line) => /^ {4}at (Module\.)?main \(|\(cut\)$/.test(line))).toBe(true);
      expect(lines.length).toBeGreaterThan(40);
    }
  });

  it.each([
    ['no JSON', '{{{'],
    ['wrong JSON', '{"version":3,"sources":5,"mappings":"!!"}'],
  ])('leave the stack as it is when broken: %s', async (_, sourceMap) => {
    const { error } = failureOf(
      await runOnce(sandbox, `export function main() {\n  throw new Error('x');\n}`, { sourceMap }),
    );
    expect(error.stack).toBe('Error: x\n    at main (main@1.js:2:9)');
  });
});
