import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, messages, resultOf, runIn, runOnce, startSandbox } from './harness.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const exec = (args: string) => `export function main() { return tailor.workflow.execJobFunction('job', ${args}); }`;
/** A job function that hands back what it was given. */
const echo = { job: 'export const main = (args) => args;' };

describe('arguments and results are JSON (behaviour.md 3)', () => {
  it.each([
    ['nothing', '', '{}'],
    ['null', 'null', '{}'],
    ['undefined', 'undefined', '{}'],
    ['a nested null', '{ a: null, b: [null] }', '{"a":null,"b":[null]}'],
    ['undefined properties', '{ a: undefined, b: 1 }', '{"b":1}'],
    ['undefined in an array', '[undefined, 1]', '[null,1]'],
    ['a Date', '{ at: new Date(0) }', '{"at":"1970-01-01T00:00:00.000Z"}'],
    ['an object with toJSON', '{ m: { toJSON: () => ({ cents: 5 }) } }', '{"m":{"cents":5}}'],
    ['text of any kind', '{ t: "\\u0000\\ud800 é" }', '{"t":"\\u0000\\ud800 é"}'],
    ['a plain value', '17', '17'],
    ['one object twice', '(() => { const o = { x: 1 }; return { a: o, b: [o] }; })()', '{"a":{"x":1},"b":[{"x":1}]}'],
  ])('takes %s', async (_, args, payload) => {
    const run = await runOnce(sandbox, exec(args), { jobs: echo });
    expect(run.calls[0]?.payload).toBe(payload);
    expect(resultOf(run)).toEqual(JSON.parse(payload));
  });

  it.each([
    ['NaN', '{ price: NaN }', 'args.price is NaN, which has no JSON.'],
    ['Infinity', '{ items: [{}, {}, { price: -Infinity }] }', 'args.items[2].price is -Infinity, which has no JSON.'],
    ['a BigInt', '{ n: 1n }', 'args.n is a BigInt; convert it with String or Number first.'],
    ['a function', '{ list: [() => 1] }', 'args.list[0] is a function, which has no JSON.'],
    ['a symbol', '{ s: Symbol("x") }', 'args.s is a symbol, which has no JSON.'],
    ['a Map', '{ m: new Map() }', 'args.m is a Map; convert it with Object.fromEntries or Array.from first.'],
    ['a Set', 'new Set()', 'args is a Set; convert it with Array.from first.'],
    [
      'a cycle',
      '(() => { const a = { list: [] }; a.list.push({ back: a }); return a; })()',
      'args.list[0].back refers back to args; a cycle has no JSON.',
    ],
    [
      'a cycle further down',
      '(() => { const a = { x: { y: {} } }; a.x.y.z = a.x; return a; })()',
      'args.x.y.z refers back to args.x; a cycle has no JSON.',
    ],
  ])('refuses %s as an argument, naming the path', async (_, args, message) => {
    const run = await runOnce(sandbox, exec(args), { jobs: echo });
    const { error, failingPosition } = failureOf(run);
    expect(error).toMatchObject({ name: 'TypeError', message, kind: 'USER_RUNTIME' });
    expect(error.code).toBeUndefined();
    expect(failingPosition).toBeNull();
    expect(run.calls).toEqual([]);
  });

  it.each([
    ['undefined', 'undefined', null],
    ['a Date', 'new Date(0)', '1970-01-01T00:00:00.000Z'],
    ['a nested value', '({ a: [1, null, { b: undefined }] })', { a: [1, null, {}] }],
    ['a thenable', '({ then(resolve) { resolve(5); } })', 5],
  ])('takes %s as a result (D34)', async (_, value, result) => {
    expect(resultOf(await runOnce(sandbox, `export const main = () => ${value};`))).toEqual(result);
  });

  it.each([
    ['a BigInt', '({ n: 1n })', 'result.n is a BigInt'],
    ['a Map', '[new Map()]', 'result[0] is a Map'],
    ['a cycle', '(() => { const a = {}; a.a = a; return a; })()', 'result.a refers back to result'],
    ['a function', '() => 1', 'result is a function'],
  ])('refuses %s as a result', async (_, value, message) => {
    const { error } = failureOf(await runOnce(sandbox, `export const main = () => (${value});`));
    expect(error).toMatchObject({ name: 'TypeError', code: 'RESULT_NOT_SERIALIZABLE', kind: 'USER_RUNTIME' });
    expect(error.message).toContain(message);
  });

  it('bounds both at 4 MiB of UTF-8 before they leave the isolate', async () => {
    const fits = `export const main = () => 'x'.repeat(4 * 1024 * 1024 - 2);`;
    expect((resultOf(await runOnce(sandbox, fits)) as string).length).toBe(4 * 1024 * 1024 - 2);
    for (const value of [
      `'x'.repeat(4 * 1024 * 1024)`,
      `'é'.repeat(3 * 1024 * 1024)`,
      `Array(500).fill('x'.repeat(1 << 20))`,
    ]) {
      const result = failureOf(await runOnce(sandbox, `export const main = () => ${value};`));
      expect(result.error).toMatchObject({ code: 'PAYLOAD_TOO_LARGE', kind: 'USER_NON_RUNTIME' });
      const run = await runOnce(sandbox, exec(value), { jobs: echo });
      expect(failureOf(run).error.code).toBe('PAYLOAD_TOO_LARGE');
      expect(run.calls).toEqual([]);
    }
  });

  it('lets a script catch what its own argument did', async () => {
    const script = `export function main() {
      try { tailor.workflow.execJobFunction('job', { n: 1n }); } catch (e) { return e instanceof TypeError; }
    }`;
    expect(resultOf(await runOnce(sandbox, script))).toBe(true);
  });
});

describe('host calls', () => {
  it('runs bodies 10 deep in one cell, each in an isolate of its own', async () => {
    const script = `globalThis.count = (globalThis.count ?? 0) + 1;
      export function main({ depth }) {
        const below = depth === 10 ? [] : tailor.workflow.execJobFunction('self', { depth: depth + 1 });
        return [...below, [depth, count]];
      }`;
    const run = await runOnce(sandbox, script, { args: { depth: 1 }, jobs: { self: script } });
    expect(resultOf(run)).toEqual([10, 9, 8, 7, 6, 5, 4, 3, 2, 1].map((depth) => [depth, 1]));
  });

  it('serves both styles: the plain value, and await in front of it', async () => {
    const script = `export async function main() {
      const a = tailor.workflow.triggerJobFunction('job', { n: 1 }).n;
      const b = (await tailor.workflow.startJobFunction('job', { n: 2 })).n;
      const all = await Promise.all([3, 4].map((n) => tailor.workflow.execJobFunction('job', { n })));
      return [a, b, all];
    }`;
    expect(resultOf(await runOnce(sandbox, script, { jobs: echo }))).toEqual([1, 2, [{ n: 3 }, { n: 4 }]]);
  });

  it('gives positions in program order and passes recorded calls on one after the other (D5)', async () => {
    const script = `export async function main() {
      const started = tailor.workflow.startWorkflow('first', { a: 1 }, { authInvoker: { namespace: 'n', machineUserName: 'bot' } });
      const job = tailor.workflow.execJobFunction('job', { b: 2 }, { executionPolicyKey: 'premium' });
      tailor.workflow.startWorkflow('last');
      return [await started, job];
    }`;
    let underWay = 0;
    let most = 0;
    const run = await runOnce(sandbox, script, {
      onCall: async (call) => {
        most = Math.max(most, ++underWay);
        await new Promise((resolve) => setTimeout(resolve, call.op === 'startWorkflow' ? 20 : 0));
        underWay--;
        return { value: JSON.stringify(call.op) };
      },
    });
    expect(most).toBe(1);
    expect(resultOf(run)).toEqual(['startWorkflow', 'execJobFunction']);
    expect(run.calls.map(({ op, args, payload, position }) => ({ op, args, payload, position }))).toEqual([
      {
        op: 'startWorkflow',
        args: '["first",{"authInvoker":{"namespace":"n","machineUserName":"bot"}}]',
        payload: '{"a":1}',
        position: 0,
      },
      { op: 'execJobFunction', args: '["job",{"executionPolicyKey":"premium"}]', payload: '{"b":2}', position: 1 },
      { op: 'startWorkflow', args: '["last"]', payload: '{}', position: 2 },
    ]);
  });

  it('tells the end only after every recorded call is answered', async () => {
    let answered = false;
    const run = await runOnce(sandbox, `export function main() { tailor.workflow.startWorkflow('w'); return 1; }`, {
      onCall: async () => {
        await new Promise((resolve) => setTimeout(resolve, 50));
        answered = true;
        return { value: '"id"' };
      },
    });
    expect(resultOf(run)).toBe(1);
    expect(answered).toBe(true);
  });

  it('rejects bad arguments of startWorkflow, throws those of execJobFunction', async () => {
    const script = `export async function main() {
      const seen = [];
      try { tailor.workflow.execJobFunction(7); } catch (e) { seen.push(e.message); }
      await tailor.workflow.startWorkflow(undefined).catch((e) => seen.push(e.message));
      await tailor.workflow.startWorkflow('w', { n: NaN }).catch((e) => seen.push(e.message));
      try { tailor.workflow.execJobFunction('x', {}, { executionPolicyKey: 1 }); } catch (e) { seen.push(e.message); }
      return seen;
    }`;
    expect(resultOf(await runOnce(sandbox, script))).toEqual([
      'execJobFunction: its first argument must be a string.',
      'startWorkflow: its first argument must be a string.',
      'args.n is NaN, which has no JSON.',
      'execJobFunction: options.executionPolicyKey must be a string.',
    ]);
  });

  it('throws at the 257th outstanding call', async () => {
    const script = `export async function main() {
      const all = [];
      try { for (;;) all.push(tailor.workflow.startWorkflow('w')); }
      catch (e) { await all[0]; tailor.workflow.startWorkflow('w'); return [all.length, e.code]; }
    }`;
    expect(resultOf(await runOnce(sandbox, script, { onCall: () => ({ value: '1' }) }))).toEqual([
      256,
      'CALL_NOT_ALLOWED',
    ]);
  });

  it('runs nothing of a script after main has settled (D34)', async () => {
    const script = `export async function main() {
      setTimeout(() => tailor.workflow.startWorkflow('late'), 1);
      (async () => { for (let i = 0; i < 1e5; i++) await null; tailor.workflow.startWorkflow('later'); })();
      return 1;
    }`;
    const run = await runOnce(sandbox, script, { onCall: () => ({ value: '1' }) });
    expect(resultOf(run)).toBe(1);
    expect(run.calls).toEqual([]);
  });

  it('sends log lines with the call or end that follows, and by themselves when nothing does', async () => {
    const lease = await sandbox.acquire({ workspaceId: 'logs' });
    const script = `export async function main() {
      console.log('before'); tailor.workflow.execJobFunction('x'); console.warn('after');
      await new Promise((r) => setTimeout(r, 100)); return 1;
    }`;
    const { calls, end, logs } = await runIn(lease, script, { onCall: () => ({ value: '1' }) });
    expect(messages(calls[0]?.logs ?? [])).toEqual(['before']);
    expect(messages(end.logs)).toEqual([]);
    expect(messages(logs)).toEqual(['before', 'after']);
    await lease.release();
  });

  it('bounds and cleans log lines (D33)', async () => {
    const script = `export function main() {
      console.log('a\\0b\\ud800c');
      console.log('L'.repeat(100_000));
      for (let i = 0; i < 100_000; i++) console.log('x'.repeat(2000));
    }`;
    const { logs } = await runOnce(sandbox, script);
    expect(logs[0]?.message).toBe('a\ufffdb\ufffdc');
    expect(Buffer.byteLength(logs[1]?.message ?? '')).toBeLessThanOrEqual(8 * 1024);
    expect(logs[1]?.message).toMatch(/\(cut\)$/);
    const bytes = logs.reduce((sum, line) => sum + Buffer.byteLength(line.message), 0);
    expect(bytes).toBeLessThanOrEqual(1024 * 1024);
    expect(bytes).toBeGreaterThan(900 * 1024);
    expect(messages(logs).filter((line) => /is cut here/.test(line))).toEqual([logs.at(-1)?.message]);
  });

  it('shows the last line before an endless loop', async () => {
    const script = `export function main() { console.log('here'); for (;;); }`;
    const run = await runOnce(sandbox, script, { limits: { cpuMs: 100 } });
    expect(failureOf(run).error.code).toBe('CPU_LIMIT_EXCEEDED');
    expect(messages(run.logs)).toEqual(['here']);
  });

  it.each([
    ['blocking', `tailor.workflow.execJobFunction('job')`],
    ['in the background', `await tailor.workflow.startWorkflow('job')`],
  ])(
    'ends the body at a call that is answered fatally, %s: its stack is told, and no code of it runs',
    async (_, call) => {
      const script = `export async function main() {
      Error.prepareStackTrace = () => { console.log('prepared'); throw 1; };
      try {
        ${call};
      } catch { console.log('caught'); } finally { console.log('finally'); }
    }`;
      const fatal = { name: 'Error', message: 'no such call', stack: '', code: 'ARGUMENT_MISMATCH' };
      const run = await runOnce(sandbox, script, { onCall: () => ({ fatal }) });
      const { error, failingPosition } = failureOf(run);
      expect(error).toMatchObject({ name: 'Error', message: 'no such call', code: 'ARGUMENT_MISMATCH' });
      expect(error.stack).toMatch(/^Error: no such call\n {4}at main \(main@1\.js:4:\d+\)$/);
      expect(failingPosition).toBeNull();
      expect(messages(run.logs)).toEqual([]);
    },
  );
});
