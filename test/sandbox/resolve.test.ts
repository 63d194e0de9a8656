import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HostAnswer, HostCall } from '../../src/sandbox/protocol.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, newReplay, resultOf, runOnce, startSandbox } from './harness.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const waiting: HostAnswer = { value: '{"payload":{"n":20}}' };
const notWaiting = { name: 'Error', message: 'resolve failed: it does not wait', stack: '', code: 'NOT_WAITING' };

/** The engine's side: the wait exists, and whatever the script makes of it is recorded. */
function answer(call: HostCall): HostAnswer {
  if (call.op === 'resolve') return waiting;
  const [, outcome] = JSON.parse(call.args) as [string, { error?: typeof notWaiting }?];
  if (call.op === 'resolveWith' && outcome?.error !== undefined) return { error: outcome.error };
  return { value: 'null' };
}

const run = (body: string, onCall: (call: HostCall) => HostAnswer | Promise<HostAnswer> = answer) =>
  runOnce(sandbox, `export async function main() { const { workflow } = tailor; ${body} }`, {
    replay: newReplay(),
    onCall,
  });

const sent = (calls: HostCall[]) => calls.map(({ op, args, position }) => [op, JSON.parse(args), position]);

describe('tailor.workflow.resolve', () => {
  it('is two messages at one position: the payload comes in, the result of the callback goes out', async () => {
    const { end, calls } = await run(`
      workflow.execJobFunction('before');
      const resolved = await workflow.resolve('exec-1', 'my-key', async ({ n }) => { await null; return { n: n + 1 }; });
      workflow.execJobFunction('after');
      return [resolved === undefined];`);
    expect(resultOf({ end })).toEqual([true]);
    expect(sent(calls)).toEqual([
      ['execJobFunction', ['before'], 0],
      ['resolve', ['my-key'], 1],
      ['resolveWith', ['my-key', { result: '{"n":21}' }], 1],
      ['execJobFunction', ['after'], 2],
    ]);
    expect(calls.map((call) => call.payload)).toEqual([
      '{}',
      '{"executionId":"exec-1"}',
      '{"executionId":"exec-1"}',
      '{}',
    ]);
  });

  it('sends the readings of the clock before it with both messages, and none of the callback', async () => {
    const { end, calls } = await run(`
      const before = Date.now();
      await workflow.resolve('e', 'my-key', async () => { Date.now(); await null; new Date(); return Math.random(); });
      const after = Date.now();
      workflow.execJobFunction('a');
      return [before, after];`);
    const [before, after] = resultOf({ end }) as number[];
    expect(calls.map((call) => call.clock)).toEqual([[before], [before], [after]]);
  });

  it('takes real chance in the callback, so that a replay without it draws the same', async () => {
    const body = `
      let inside;
      // Behind \`return later()\` V8 does not tell any more whose code it is.
      const later = async (a) => { await null; inside = [a, crypto.randomUUID(), Date.now()]; };
      await workflow.resolve('e', 'my-key', async () => later(Math.random()));
      return [Math.random(), inside];`;

    const first = resultOf(await run(body)) as unknown[];
    const second = resultOf(await run(body)) as unknown[];
    const replayed = resultOf(await run(body, () => ({ value: 'null' }))) as unknown[];
    expect(second[0]).toBe(first[0]);
    expect(second[1]).not.toEqual(first[1]);
    expect(replayed).toEqual([first[0], null]);
  });

  it('makes null of undefined, and does not run the callback when all is recorded', async () => {
    const { calls } = await run(`await workflow.resolve('e', 'my-key', () => {});`);
    expect(JSON.parse(calls[1]?.args ?? '')).toEqual(['my-key', { result: 'null' }]);
    const replayed = await run(
      `let ran = false; await workflow.resolve('e', 'my-key', () => { ran = true; }); return ran;`,
      () => ({ value: 'null' }),
    );
    expect(resultOf(replayed)).toBe(false);
    expect(replayed.calls).toHaveLength(1);
  });

  it('rejects with the error of either answer, which is the failing call (D9)', async () => {
    for (const refused of ['resolve', 'resolveWith']) {
      const { end } = await run(
        `workflow.execJobFunction('a'); await workflow.resolve('e', 'my-key', () => 1);`,
        (call) => (call.op === refused ? { error: notWaiting } : answer(call)),
      );
      const failure = failureOf({ end });
      expect(failure.error).toMatchObject({ message: notWaiting.message, code: 'NOT_WAITING' });
      expect(failure.failingPosition).toBe(1);
    }
  });

  it('records how the callback failed and rejects with its own error', async () => {
    const { end, calls } = await run(`
      const own = new RangeError('callback broke');
      own.code = 'NOT_WAITING';
      try { await workflow.resolve('e', 'my-key', async () => { await null; throw own; }); } catch (error) {
        if (error !== own) return 'another error';
        throw error;
      }`);
    const failure = failureOf({ end });
    expect(failure.error).toMatchObject({ name: 'RangeError', message: 'callback broke' });
    expect(failure.error.code).toBeUndefined();
    expect(failure.failingPosition).toBe(0);
    expect(calls.map((call) => [call.op, call.position])).toEqual([
      ['resolve', 0],
      ['resolveWith', 0],
    ]);
    const [key, outcome] = JSON.parse(calls[1]?.args ?? '') as [string, { error: { stack: string } }];
    expect(key).toBe('my-key');
    expect(outcome).toEqual({ error: { name: 'RangeError', message: 'callback broke', stack: expect.any(String) } });
    expect(outcome.error.stack).toMatch(/main@1\.js/);
    expect(outcome.error.stack).not.toMatch(/jobcell/);
  });

  it('records a result that has no JSON as a failure, and a thrown value that is no error', async () => {
    const noJson = await run(`await workflow.resolve('e', 'my-key', () => ({ a: new Map() }));`);
    expect(failureOf(noJson).error).toMatchObject({
      name: 'TypeError',
      message: expect.stringMatching(/^result\.a is a Map/),
    });
    expect(JSON.parse(noJson.calls[1]?.args ?? '')[1].error.name).toBe('TypeError');
    const thrown = await run(`await workflow.resolve('e', 'my-key', () => { throw 'words'; });`);
    expect(JSON.parse(thrown.calls[1]?.args ?? '')[1].error.message).toBe('words');
    expect(failureOf(thrown).error.message).toBe('words');
  });

  it('maps the stack of a callback that failed', async () => {
    const map = {
      version: 3,
      sources: ['orders.ts'],
      names: [],
      // Line 1, column 0 of the bundle is line 10, column 4 of orders.ts.
      mappings: 'AASI',
    };
    const script = `export const main = () => tailor.workflow.resolve('e', 'my-key', () => { throw new Error('mapped'); });`;
    const { calls, end } = await runOnce(sandbox, script, {
      replay: newReplay(),
      sourceMap: JSON.stringify(map),
      onCall: answer,
    });
    expect(JSON.parse(calls[1]?.args ?? '')[1].error.stack).toMatch(/orders\.ts:10:5/);
    expect(failureOf({ end }).error.stack).toMatch(/orders\.ts:10:5/);
  });

  it('checks its arguments before it takes a position', async () => {
    const { end, calls } = await run(`
      const name = (error) => error.name + ': ' + error.message;
      return [
        await workflow.resolve(1, 'my-key', () => 1).catch(name),
        await workflow.resolve('e', undefined, () => 1).catch(name),
        await workflow.resolve('e', 'my-key').catch(name),
        workflow.execJobFunction('a'),
      ];`);
    expect(resultOf({ end })).toEqual([
      'TypeError: resolve: its first argument must be a string.',
      'TypeError: resolve: its second argument must be a string.',
      'TypeError: resolve: its third argument must be a function.',
      null,
    ]);
    expect(sent(calls)).toEqual([['execJobFunction', ['a'], 0]]);
  });

  it('passes several on in order, whichever callback is first', async () => {
    const { end, calls } = await run(`
      const later = (ms) => new Promise((done) => setTimeout(done, ms));
      await Promise.all([
        workflow.resolve('e', 'slow-key', async () => { await later(30); return 'slow'; }),
        workflow.resolve('e', 'fast-key', () => 'fast'),
        workflow.startWorkflow('w'),
      ]);
      return 'done';`);
    expect(resultOf({ end })).toBe('done');
    expect(sent(calls)).toEqual([
      ['resolve', ['slow-key'], 0],
      ['resolve', ['fast-key'], 1],
      ['startWorkflow', ['w'], 2],
      ['resolveWith', ['fast-key', { result: '"fast"' }], 1],
      ['resolveWith', ['slow-key', { result: '"slow"' }], 0],
    ]);
  });
});

describe('inside the callback of resolve (D10)', () => {
  const refusal = /^\w+ is not allowed inside the callback of tailor\.workflow\.resolve/;
  const recordedCalls = [
    `workflow.execJobFunction('a')`,
    `workflow.startWorkflow('w')`,
    `workflow.wait('key')`,
    `workflow.resolve('e', 'other', () => 1)`,
    `workflow.resumeWorkflowExecution('e')`,
  ];

  it.each([
    ['at once', (call: string) => `async () => { await ${call}; }`],
    ['after an await', (call: string) => `async () => { await null; await null; await ${call}; }`],
    ['in a then', (call: string) => `() => Promise.resolve().then(() => ${call})`],
    [
      'deep in awaited functions',
      (call: string) =>
        `async () => { const f = async (n) => { await null; return n > 0 ? await f(n - 1) : ${call}; }; await f(20); }`,
    ],
    ['in a Promise.all', (call: string) => `() => Promise.all([1, (async () => { await null; return ${call}; })()])`],
    [
      'behind a deep stack',
      (call: string) => `() => { const f = (n) => (n > 0 ? f(n - 1) : ${call}); return f(500); }`,
    ],
    [
      'under a hostile Error',
      (call: string) =>
        `async () => { Error.stackTraceLimit = 0; Error.prepareStackTrace = () => ''; await null; await ${call}; }`,
    ],
  ])('refuses recorded calls: %s', async (_, callback) => {
    const attempts = recordedCalls.map(
      (call) => `await workflow.resolve('e', 'my-key', ${callback(call)}).catch((error) => error.message)`,
    );
    const { end, calls } = await run(`return [${attempts.join(', ')}, workflow.execJobFunction('after')];`);
    const result = resultOf({ end }) as string[];
    expect(result).toHaveLength(6);
    for (const message of result.slice(0, 5)) expect(message).toMatch(refusal);
    const ops = calls.map((call) => `${call.op} ${call.position}`);
    expect(ops).toEqual([...[0, 1, 2, 3, 4].flatMap((p) => [`resolve ${p}`, `resolveWith ${p}`]), 'execJobFunction 5']);
  });

  it('leaves alone what the body does meanwhile and afterwards', async () => {
    const { end, calls } = await run(`
      let release;
      const held = new Promise((done) => { release = done; });
      const resolved = workflow.resolve('e', 'my-key', async () => { await held; return 1; });
      await new Promise((done) => setTimeout(done, 5));
      workflow.execJobFunction('meanwhile');
      await workflow.startWorkflow('w');
      release();
      await resolved;
      workflow.execJobFunction('afterwards');
      return 'done';`);
    expect(resultOf({ end })).toBe('done');
    expect(calls.map((call) => `${call.op} ${call.position}`)).toEqual([
      'resolve 0',
      'execJobFunction 1',
      'startWorkflow 2',
      'resolveWith 0',
      'execJobFunction 3',
    ]);
  });

  it('lets the body read the clock and draw meanwhile, as its replay does', async () => {
    const body = `
      let release;
      const held = new Promise((done) => { release = done; });
      const resolved = workflow.resolve('e', 'my-key', async () => { Date.now(); await held; Math.random(); return 1; });
      await new Promise((done) => setTimeout(done, 5));
      const drawn = [Math.random(), Date.now()];
      release();
      await resolved;
      workflow.execJobFunction('a');
      return drawn;`;
    const first = await run(body);
    const [chance, time] = resultOf(first) as number[];
    expect(first.calls.at(-1)?.clock).toEqual([time]);
    expect(resultOf(await run(body, () => ({ value: 'null' })))).toEqual([chance, expect.any(Number)]);
  });

  it('allows logging and catching the refusal', async () => {
    const { end, calls } = await run(`
      await workflow.resolve('e', 'my-key', () => {
        console.log('inside');
        try { workflow.execJobFunction('a'); } catch { return 'caught'; }
      });
      return 'done';`);
    expect(resultOf({ end })).toBe('done');
    expect(JSON.parse(calls[1]?.args ?? '')[1]).toEqual({ result: '"caught"' });
  });
});
