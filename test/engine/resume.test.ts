import { transform } from 'esbuild';
import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Execution, type Workspace } from '../support/client.ts';
import { replayModes } from '../support/fixtures.ts';
import { startServer } from '../support/server.ts';

let workspace: Workspace;

/** Uploads scripts and declares a workflow on the first one. */
async function define(scripts: Record<string, string>): Promise<string> {
  await workspace.uploadJobFunctions(scripts);
  const [name] = Object.keys(scripts) as [string];
  await workspace.putWorkflow(name, name);
  return name;
}

const runsOf = (execution: Execution) =>
  Object.fromEntries(execution.jobExecutions.map((step) => [step.path.slice(step.path.indexOf('/') + 1), step.runs]));

beforeAll(async () => {
  workspace = await new Client(await startServer()).createWorkspace();
  await workspace.uploadJobFunctions({
    echo: 'export const main = (args) => args;',
    fails: `export const main = ({ n }) => { throw new Error('fails ' + n); };`,
  });
});

describe.each(replayModes)('resume, replay %s', (replay) => {
  test('goes on at the point of failure: what succeeded is not run again', async () => {
    const prefix = `fix-${replay}`;
    const workflow = await define({
      [`${prefix}-main`]: `export function main() {
        const data = tailor.workflow.execJobFunction('echo', { n: 1 });
        const saved = tailor.workflow.execJobFunction('${prefix}-save', data);
        return [data, saved];
      }`,
      [`${prefix}-save`]: `export const main = () => { throw new Error('disk full'); };`,
    });
    const failed = await workspace.run(workflow, {}, { replay });
    expect(failed).toMatchObject({
      status: 'FAILED',
      attempt: 1,
      error: { message: 'disk full', at: `${workflow}/${prefix}-save` },
    });

    await workspace.uploadJobFunction(`${prefix}-save`, `export const main = (data) => ({ saved: data.n });`);
    // E7: pinned to the versions it started with, it fails the same way ...
    const pinned = await workspace.resume(failed.id, { code: 'pinned' });
    expect(pinned).toMatchObject({ status: 'FAILED', attempt: 2 });
    // ... and with the newest ones it succeeds (D28).
    const resumed = await workspace.resume(failed.id);
    expect(resumed).toMatchObject({ status: 'SUCCESS', attempt: 3, error: null, result: [{ n: 1 }, { saved: 1 }] });
    expect(resumed.jobExecutions.find((step) => step.name === 'echo')!.runs).toBe(1);
    expect(resumed.jobExecutions.at(-1)).toMatchObject({ functionVersion: 2, runs: 3 });
  });

  test('D9: of a Promise.all of three calls, the one that failed runs again, not the last', async () => {
    const prefix = `all-${replay}`;
    const call = (n: number) => `(async () => tailor.workflow.execJobFunction('${prefix}-part', { n: ${n} }))()`;
    const workflow = await define({
      [`${prefix}-main`]: `export async function main() { return await Promise.all([${[0, 1, 2].map(call)}]); }`,
      [`${prefix}-part`]: `export const main = ({ n }) => { if (n === 0) throw new Error('first'); return n; };`,
    });
    const failed = await workspace.run(workflow, {}, { replay });
    expect(failed.status).toBe('FAILED');
    expect(failed.jobExecutions.map((step) => step.status)).toEqual(['FAILED', 'FAILED', 'SUCCESS', 'SUCCESS']);
    await workspace.uploadJobFunction(`${prefix}-part`, 'export const main = ({ n }) => n;');
    const resumed = await workspace.resume(failed.id);
    expect(resumed).toMatchObject({ status: 'SUCCESS', result: [0, 1, 2] });
    expect(resumed.jobExecutions.slice(1).map((step) => step.runs)).toEqual([2, 1, 1]);
  });

  test.each([
    ['with cause', `throw new Error('wrapped', { cause: e });`],
    ['without cause', `throw new Error('wrapped');`],
  ])('D9: a failure that is wrapped %s runs again', async (how, rethrow) => {
    const prefix = `wrap-${how.replaceAll(' ', '-')}-${replay}`;
    const workflow = await define({
      [`${prefix}-main`]: `export function main() {
        tailor.workflow.execJobFunction('echo', { n: 1 });
        try { return tailor.workflow.execJobFunction('${prefix}-part'); } catch (e) { ${rethrow} }
      }`,
      [`${prefix}-part`]: `export const main = () => { throw new Error('inner'); };`,
    });
    const failed = await workspace.run(workflow, {}, { replay });
    expect(failed).toMatchObject({ status: 'FAILED', error: { message: 'wrapped', at: workflow } });
    await workspace.uploadJobFunction(`${prefix}-part`, `export const main = () => 'mended';`);
    const resumed = await workspace.resume(failed.id);
    expect(resumed).toMatchObject({ status: 'SUCCESS', result: 'mended' });
    expect(resumed.jobExecutions.slice(1).map((step) => step.runs)).toEqual([1, 2]);
  });

  test('D9: failures that were caught stay caught; only the failing call runs again', async () => {
    const prefix = `caught-${replay}`;
    const workflow = await define({
      [`${prefix}-main`]: `export async function main() {
        const settled = await Promise.allSettled([1, 2].map(async (n) => tailor.workflow.execJobFunction('fails', { n })));
        let caught;
        try { tailor.workflow.execJobFunction('fails', { n: 3 }); } catch (e) { caught = e.message; }
        const last = tailor.workflow.execJobFunction('${prefix}-part');
        return [settled.map((s) => s.reason.message), caught, last];
      }`,
      [`${prefix}-part`]: `export const main = () => { throw new Error('part'); };`,
    });
    const failed = await workspace.run(workflow, {}, { replay });
    expect(failed).toMatchObject({ status: 'FAILED', error: { message: 'part' } });
    await workspace.uploadJobFunction('fails', `export const main = () => 'would change the path';`);
    await workspace.uploadJobFunction(`${prefix}-part`, `export const main = () => 'done';`);
    const resumed = await workspace.resume(failed.id);
    expect(resumed).toMatchObject({ status: 'SUCCESS', result: [['fails 1', 'fails 2'], 'fails 3', 'done'] });
    expect(resumed.jobExecutions.slice(1).map((step) => step.runs)).toEqual([1, 1, 1, 2]);
    await workspace.uploadJobFunction('fails', `export const main = ({ n }) => { throw new Error('fails ' + n); };`);
  });

  test('D7, D8: a fix that changes a recorded call is a readable mismatch; `from` mends it', async () => {
    const prefix = `change-${replay}`;
    const main = (price: number) => `export function main() {
      const a = tailor.workflow.execJobFunction('echo', { price: ${price} });
      return tailor.workflow.execJobFunction('${prefix}-part', a);
    }`;
    const workflow = await define({
      [`${prefix}-main`]: main(1),
      [`${prefix}-part`]: `export const main = () => { throw new Error('part'); };`,
    });
    const failed = await workspace.run(workflow, {}, { replay });
    await workspace.uploadJobFunctions({
      [`${prefix}-main`]: main(2),
      [`${prefix}-part`]: 'export const main = (a) => a;',
    });

    const mismatch = await workspace.resume(failed.id);
    expect(mismatch).toMatchObject({ status: 'FAILED', error: { code: 'ARGUMENT_MISMATCH', at: workflow } });
    expect(mismatch.error!.message).toContain('position 0');
    expect(mismatch.error!.message).toContain('{"price":1}');
    expect(mismatch.error!.message).toContain('{"price":2}');

    const from = `${workflow}/0:echo`;
    const unknown = await workspace.client.post(`${workspace.path}/executions/${failed.id}/resume`, {
      from: 'nowhere',
    });
    expect(unknown).toMatchObject({ status: 400, body: { errors: [{ path: 'from' }] } });
    const mended = await workspace.resume(failed.id, { from });
    expect(mended).toMatchObject({ status: 'SUCCESS', result: { price: 2 } });
  });

  test.each([
    ['a blocking call', `tailor.workflow.execJobFunction('echo', { price: PRICE })`],
    ['one in the background', `await tailor.workflow.startWorkflow('nowhere', { price: PRICE }).catch(() => {})`],
  ])(
    'D8: a mismatch at %s names its line in the original source, and nothing of the script sees it',
    async (what, call) => {
      const prefix = `line-${what.replaceAll(' ', '-')}-${replay}`;
      const source = `type Args = { n: number };

// A comment that a bundler drops.
async function order(args: Args) {
  try {
    ${call};
  } catch { console.log('caught'); } finally { console.log('finally'); }
  tailor.workflow.execJobFunction('fails', { n: args.n });
}

export const main = async (args: Args) => { await order(args); };
`;
      const bundle = async (price: number) => {
        const options = {
          loader: 'ts',
          minify: true,
          format: 'esm',
          sourcemap: 'inline',
          sourcefile: 'src/order.ts',
        } as const;
        return (await transform(source.replace('PRICE', String(price)), options)).code;
      };
      const workflow = await define({ [`${prefix}-main`]: await bundle(1) });
      const failed = await workspace.run(workflow, { n: 1 }, { replay });
      expect(failed).toMatchObject({ status: 'FAILED', error: { message: 'fails 1' } });
      const logs = () => workspace.client.expect<object>('GET', `${workspace.path}/executions/${failed.id}/logs`);
      const before = await logs();
      await workspace.uploadJobFunction(`${prefix}-main`, await bundle(2));
      const { error, jobExecutions } = await workspace.resume(failed.id);
      expect(error).toMatchObject({ code: 'ARGUMENT_MISMATCH', at: workflow, kind: 'USER_RUNTIME' });
      expect(error!.message).toMatch(
        /recorded .*"price":1.* replayed .*"price":2.* The call is made at \w+ \(src\/order\.ts:6:\d+\)\.$/,
      );
      expect(error!.stack).toMatch(
        /^Error: The replay of [^\n]+\n {4}at \w+ \(src\/order\.ts:6:\d+\)\n {4}at \w+ \(src\/order\.ts:11:\d+\)/,
      );
      expect(error!.stack).not.toMatch(/jobcell|@1\.js|node:/);
      // Records stay as they were, and no catch or finally has run again.
      expect(jobExecutions.slice(1).map((step) => [step.status, step.runs])).toEqual(
        failed.jobExecutions.slice(1).map((step) => [step.status, step.runs]),
      );
      expect(await logs()).toEqual(before);
    },
  );

  test('D7: leaving a recorded call out is a mismatch only when the body returns', async () => {
    const prefix = `left-${replay}`;
    const workflow = await define({
      [`${prefix}-main`]: `export function main() {
        tailor.workflow.execJobFunction('echo', { n: 1 });
        tailor.workflow.execJobFunction('echo', { n: 2 });
        throw new Error('stop');
      }`,
    });
    const failed = await workspace.run(workflow, {}, { replay });
    await workspace.uploadJobFunction(`${prefix}-main`, `export function main() { throw new Error('other'); }`);
    expect(await workspace.resume(failed.id)).toMatchObject({ status: 'FAILED', error: { message: 'other' } });
    await workspace.uploadJobFunction(`${prefix}-main`, `export function main() { return 'short'; }`);
    const short = await workspace.resume(failed.id);
    expect(short).toMatchObject({ status: 'FAILED', error: { code: 'ARGUMENT_MISMATCH' } });
    expect(short.error!.message).toBe(
      `The replay of ${workflow} returned after 0 calls, without 2 calls that an earlier run of it had made. The first ` +
        `of them is at position 0, made by run 1 as its first call: recorded execJobFunction("echo", {"n":1}). ` +
        'A body must make the same calls in the same order whenever it is run again.',
    );
    // No line of the script stands for a call that was not made: the call before it says where it belongs.
    await workspace.uploadJobFunction(
      `${prefix}-main`,
      `export function main() { return tailor.workflow.execJobFunction('echo', { n: 1 }); }`,
    );
    const one = await workspace.resume(failed.id);
    expect(one.error!.message).toContain(
      `returned after 1 call, without a call that an earlier run of it had made. It is at position 1, made by run ${replay === 'always' ? 2 : 1} ` +
        `right after execJobFunction("echo", {"n":1}): recorded execJobFunction("echo", {"n":2}).`,
    );
  });

  test('a failed call of another kind runs again as well', async () => {
    const prefix = `kinds-${replay}`;
    const workflow = await define({
      [`${prefix}-main`]: `export async function main() {
        tailor.workflow.execJobFunction('echo', {});
        return await tailor.workflow.startWorkflow('${prefix}-later', {});
      }`,
    });
    const failed = await workspace.run(workflow, {}, { replay });
    expect(failed).toMatchObject({ status: 'FAILED', error: { code: 'WORKFLOW_NOT_FOUND' } });
    await workspace.putWorkflow(`${prefix}-later`, 'echo');
    const resumed = await workspace.resume(failed.id);
    expect(resumed.status).toBe('SUCCESS');
    expect((await workspace.finished(resumed.result as string)).status).toBe('SUCCESS');
    expect(runsOf(resumed)).toMatchObject({ '0:echo': 1 });
  });
});

test('only FAILED, CANCELED and PENDING_RETRY ones can be resumed', async () => {
  await workspace.putWorkflow('echo', 'echo');
  const done = await workspace.run('echo');
  const answer = await workspace.client.post(`${workspace.path}/executions/${done.id}/resume`, {});
  expect(answer).toMatchObject({ status: 409, body: { code: 'CONFLICT', detail: expect.stringContaining('SUCCESS') } });
  const nobody = await workspace.client.post(
    `${workspace.path}/executions/${'0'.repeat(8)}-0000-7000-8000-${'0'.repeat(12)}/resume`,
    {},
  );
  expect(nobody.status).toBe(404);
});

test('resumeWorkflowExecution resumes another execution from a script, once for one call', async () => {
  const other = await define({
    'other-main': `export const main = () => tailor.workflow.execJobFunction('other-part');`,
    'other-part': `export const main = () => { throw new Error('broken'); };`,
  });
  const failed = await workspace.run(other);
  await workspace.uploadJobFunction('other-part', `export const main = () => 'mended';`);
  await define({
    'resumes-main': `export async function main({ id }) {
      const resumed = await tailor.workflow.resumeWorkflowExecution(id);
      const errors = [];
      for (const bad of ['no-id', '00000000-0000-7000-8000-000000000000']) {
        try { await tailor.workflow.resumeWorkflow(bad); } catch (e) { errors.push(e.message); }
      }
      tailor.workflow.execJobFunction('echo', {});
      return { resumed, errors };
    }`,
  });
  const { status, result } = await workspace.run('resumes-main', { id: failed.id }, { replay: 'always' });
  expect(status).toBe('SUCCESS');
  const { resumed, errors } = result as { resumed: string; errors: string[] };
  expect(resumed).toBe(failed.id);
  expect(errors).toEqual([
    expect.stringMatching(/^resumeWorkflow failed: /),
    expect.stringMatching(/^resumeWorkflow failed: /),
  ]);
  expect(await workspace.finished(failed.id)).toMatchObject({ status: 'SUCCESS', attempt: 2, result: 'mended' });
});
