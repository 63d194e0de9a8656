import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { replayModes } from '../support/fixtures.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let workspace: Workspace;

/** Uploads `main` and whatever it calls under names of this test, and declares a workflow on it. */
async function define(name: string, main: string, jobs: Record<string, string> = {}): Promise<string> {
  await workspace.uploadJobFunctions({ ...jobs, [name]: main });
  await workspace.putWorkflow(name, name);
  return name;
}

beforeAll(async () => {
  server = await startServer();
  workspace = await new Client(server).createWorkspace();
  await workspace.uploadJobFunctions({
    echo: 'export const main = (args) => args;',
    throws: `export function main(args) {
      const error = new RangeError('broken: ' + args.why);
      throw error;
    }`,
    nothing: 'export function main() {}',
    recurse: `export const main = ({ left }) =>
      left === 0 ? 1 : 1 + tailor.workflow.execJobFunction('recurse', { left: left - 1 });`,
  });
  await workspace.putWorkflow('recurse', 'recurse');
  await workspace.putWorkflow('echo', 'echo');
});

describe.each(replayModes)('calls of a job, replay %s', (replay) => {
  test('a failure of a child is rethrown in the parent with its name, message and stack', async () => {
    const workflow = await define(
      `catches-${replay}`,
      `export function main() {
        try { tailor.workflow.execJobFunction('throws', { why: 'rain' }); }
        catch (e) { return { name: e.name, message: e.message, stack: e.stack, isError: e instanceof Error }; }
      }`,
    );
    const { status, result, jobExecutions } = await workspace.run(workflow, {}, { replay });
    expect(status).toBe('SUCCESS');
    expect(result).toMatchObject({ name: 'RangeError', message: 'broken: rain', isError: true });
    expect((result as { stack: string }).stack).toMatch(/^RangeError: broken: rain\n\s+at main \(throws@1\.js:2:\d+\)/);
    expect(jobExecutions[1]).toMatchObject({ status: 'FAILED', error: { at: `${workflow}/throws` } });
  });

  test('an uncaught failure of a child fails the execution and names where it came from', async () => {
    const workflow = await define(
      `passes-on-${replay}`,
      `export async function main() { await tailor.workflow.execJobFunction('throws', { why: 'hail' }); }`,
    );
    const { status, error, jobExecutions } = await workspace.run(workflow, {}, { replay });
    expect(status).toBe('FAILED');
    expect(error).toMatchObject({
      name: 'RangeError',
      message: 'broken: hail',
      kind: 'USER_RUNTIME',
      code: 'SCRIPT_ERROR',
      at: `${workflow}/throws`,
    });
    expect(jobExecutions.map((job) => job.status)).toEqual(['FAILED', 'FAILED']);
  });

  test('a caught failure answers the same on the replays that later calls bring', async () => {
    const workflow = await define(
      `goes-on-${replay}`,
      `export function main() {
        const seen = [];
        for (const why of ['a', 'b']) {
          try { tailor.workflow.execJobFunction('throws', { why }); } catch (e) { seen.push(e.message); }
          seen.push(tailor.workflow.execJobFunction('echo', { why }).why);
        }
        return seen;
      }`,
    );
    const { status, result, jobExecutions } = await workspace.run(workflow, {}, { replay });
    expect({ status, result }).toEqual({ status: 'SUCCESS', result: ['broken: a', 'a', 'broken: b', 'b'] });
    // E2: no finished body was started a second time.
    expect(jobExecutions.slice(1).map((job) => job.runs)).toEqual([1, 1, 1, 1]);
  });

  test('an unknown job function is an error at the call that can be caught', async () => {
    const workflow = await define(
      `unknown-job-${replay}`,
      `export function main() {
        try { tailor.workflow.execJobFunction('Fetch-Price', {}); } catch (e) { return [e.code, e.message]; }
      }`,
    );
    const { status, result } = await workspace.run(workflow, {}, { replay });
    expect(status).toBe('SUCCESS');
    expect(result).toEqual(['JOB_FUNCTION_NOT_FOUND', expect.stringContaining('"Fetch-Price"')]);
  });

  test('ten frames fit on a stack, the eleventh is a clear error', async () => {
    expect(await workspace.run('recurse', { left: 9 }, { replay })).toMatchObject({ status: 'SUCCESS', result: 10 });
    const { status, error } = await workspace.run('recurse', { left: 10 }, { replay });
    expect(status).toBe('FAILED');
    expect(error).toMatchObject({ code: 'STACK_LIMIT_EXCEEDED', kind: 'USER_NON_RUNTIME' });
    expect(error!.message).toMatch(/"recurse" would be number 11 .* at most 10 job functions/);
  });

  test('arguments and results are JSON by the rules (behaviour.md 3, D34)', async () => {
    const workflow = await define(
      `json-${replay}`,
      `export function main() {
        const call = (...args) => tailor.workflow.execJobFunction('echo', ...args);
        const tries = {
          none: call(), nothing: call(null), nested: call({ a: null, b: undefined, c: [undefined] }),
          date: call({ at: new Date(0) }), text: call({ s: '\\u0000 \\ud800 \\u{1f600}' }),
        };
        for (const [name, value] of Object.entries({ nan: { x: [NaN] }, big: { deep: { n: 1n } }, fn: { f() {} }, map: { m: new Map() } })) {
          try { call(value); } catch (e) { tries[name] = e.name + ': ' + e.message; }
        }
        const loop = {}; loop.self = loop;
        try { call(loop); } catch (e) { tries.loop = e.name + ': ' + e.message; }
        tries.undefinedResult = tailor.workflow.execJobFunction('nothing');
        return tries;
      }`,
    );
    const { status, result } = await workspace.run(workflow, {}, { replay });
    expect(status).toBe('SUCCESS');
    expect(result).toEqual({
      none: {},
      nothing: {},
      nested: { a: null, c: [null] },
      date: { at: '1970-01-01T00:00:00.000Z' },
      text: { s: '\u0000 \ud800 \u{1f600}' },
      nan: expect.stringMatching(/^TypeError: .*x\[0\]/),
      big: expect.stringMatching(/^TypeError: .*deep\.n/),
      fn: expect.stringMatching(/^TypeError: .*f/),
      map: expect.stringMatching(/^TypeError: .*m/),
      loop: expect.stringMatching(/^TypeError: .*self/),
      undefinedResult: null,
    });
  });

  test.each([
    ['circular', 'const a = {}; a.a = a; return a;'],
    ['BigInt', 'return { n: 10n };'],
  ])('a %s result is RESULT_NOT_SERIALIZABLE', async (what, body) => {
    const workflow = await define(`result-${what.toLowerCase()}-${replay}`, `export function main() { ${body} }`);
    const { status, error, result } = await workspace.run(workflow, {}, { replay });
    expect({ status, result }).toEqual({ status: 'FAILED', result: null });
    expect(error).toMatchObject({ code: 'RESULT_NOT_SERIALIZABLE' });
  });

  test('text no database can hold ends neither the run nor its log (D33)', async () => {
    const workflow = await define(
      `text-${replay}`,
      `export function main() {
        console.log('nul \\u0000 lone \\ud800 end');
        tailor.workflow.execJobFunction('echo', {});
        const error = new Error('bad \\u0000 \\udfff'); error.name = 'N\\u0000'; throw error;
      }`,
    );
    const { id, status, error } = await workspace.run(workflow, {}, { replay });
    expect(status).toBe('FAILED');
    expect(error!.message).toMatch(/^bad . .$/u);
    const logs = await workspace.client.expect<{ items: { message: string }[] }>(
      'GET',
      `${workspace.path}/executions/${id}/logs`,
    );
    // D14: one line, however often its body was replayed.
    expect(logs.items.map((line) => line.message)).toEqual([expect.stringMatching(/^nul . lone . end$/u)]);
  });
});

describe.each(replayModes)('names and keys outside the grammar, replay %s', (replay) => {
  test('are errors at the call that can be caught, before anything of it is recorded', async () => {
    const workflow = await define(
      `misnames-${replay}`,
      String.raw`export async function main() {
        const { workflow } = tailor;
        const seen = [];
        const attempt = async (call) => {
          try { await call(); seen.push('no error'); } catch (e) { seen.push([e.code, e.message]); }
          // A call that never left has no position: what follows is recorded as if it had not been tried.
          workflow.execJobFunction('echo', { after: seen.length });
        };
        for (const name of ['a\0b', 'a\ud800b', 'a/b', 'a\u007f', '', 'x'.repeat(129)]) {
          await attempt(() => workflow.execJobFunction(name));
          await attempt(() => workflow.startWorkflow(name));
          await attempt(() => workflow.resumeWorkflowExecution(name));
          await attempt(() => workflow.wait(name));
          await attempt(() => workflow.resolve('00000000-0000-7000-8000-000000000000', name, () => 1));
          await attempt(() => workflow.resolve(name, 'some-key', () => 1));
          await attempt(() => workflow.execJobFunction('echo', {}, { executionPolicyKey: name }));
        }
        for (const key of ['Upper', 'any*', '-ab', 'ab-', 'a'])
          await attempt(() => workflow.execJobFunction('echo', {}, { executionPolicyKey: key }));
        RegExp.prototype.exec = RegExp.prototype.test = () => { throw new Error('asked the script'); };
        for (const key of ['ab', 'under_score', 'a'.repeat(64)]) await attempt(() => workflow.wait(key));
        return seen;
      }`,
    );
    const { status, result, jobExecutions } = await workspace.run(workflow, {}, { replay });
    expect(status).toBe('SUCCESS');
    const seen = result as [string, string][];
    const starts = [
      'execJobFunction failed: the name',
      'startWorkflow failed: there is no workflow',
      'resumeWorkflow failed:',
      'wait failed: the key',
      'resolve failed: the key',
      'resolve failed:',
      'execJobFunction failed: the executionPolicyKey',
    ];
    expect(seen.slice(0, 7).map(([, message]) => message)).toEqual(
      starts.map((start) => expect.stringContaining(`${start} "a\\u0000b"`)),
    );
    const codes = ['BAD_REQUEST', 'WORKFLOW_NOT_FOUND', ...Array(5).fill('BAD_REQUEST')];
    expect(seen.map(([code]) => code)).toEqual([...Array(6).fill(codes).flat(), ...Array(8).fill('BAD_REQUEST')]);
    expect(jobExecutions.map((step) => step.path)).toEqual([
      workflow,
      ...seen.map((_, position) => `${workflow}/${position}:echo`),
    ]);
  });

  test('and where nobody catches one, it is the failure', async () => {
    const workflow = await define(
      `misnames-and-fails-${replay}`,
      String.raw`export const main = () => tailor.workflow.execJobFunction('a\0b');`,
    );
    const { status, error } = await workspace.run(workflow, {}, { replay });
    expect(status).toBe('FAILED');
    expect(error).toMatchObject({
      code: 'BAD_REQUEST',
      at: workflow,
      message: expect.stringContaining('"a\\u0000b"'),
    });
  });
});

describe.each(replayModes)('startWorkflow from a job, replay %s', (replay) => {
  test('is recorded with its effect: one execution each, whatever is replayed (D6)', async () => {
    const workflow = await define(
      `starts-${replay}`,
      `export async function main() {
        const first = await tailor.workflow.startWorkflow('echo', { n: 1 });
        tailor.workflow.execJobFunction('echo', {});
        const [second, third] = await Promise.all([2, 3].map((n) => tailor.workflow.triggerWorkflow('echo', { n })));
        tailor.workflow.execJobFunction('echo', {});
        return [first, second, third];
      }`,
    );
    const execution = await workspace.run(workflow, {}, { replay });
    expect(execution.status).toBe('SUCCESS');
    const results = [];
    for (const id of execution.result as string[]) results.push((await workspace.finished(id)).result);
    expect(results).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    const client = new pg.Client(server.databaseUrl);
    await client.connect();
    const started = await client.query('select id from jobcell.executions where parent_execution_id = $1', [
      execution.id,
    ]);
    await client.end();
    expect(started.rowCount).toBe(3);
  });

  test('an unknown workflow is an error at the call that can be caught', async () => {
    const workflow = await define(
      `unknown-workflow-${replay}`,
      `export async function main() {
        try { await tailor.workflow.startWorkflow('nowhere'); } catch (e) { return [e.code, e.message]; }
      }`,
    );
    const { result } = await workspace.run(workflow, {}, { replay });
    expect(result).toEqual(['WORKFLOW_NOT_FOUND', expect.stringContaining('"nowhere"')]);
  });

  test('nesting past ten levels is BAD_REQUEST (D25)', async () => {
    const workflow = await define(
      `nests-${replay}`,
      `export async function main() { return await tailor.workflow.startWorkflow('nests-${replay}', {}); }`,
    );
    let execution = await workspace.run(workflow, {}, { replay });
    for (let depth = 1; depth <= 10; depth++) {
      execution = await workspace.finished(execution.result as string);
      expect(execution.depth).toBe(depth);
    }
    expect(execution).toMatchObject({ status: 'FAILED', error: { code: 'BAD_REQUEST' } });
  });
});
