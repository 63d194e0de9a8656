import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Client, type Execution, type Workspace } from '../support/client.ts';
import { replayModes } from '../support/fixtures.ts';
import { startServer } from '../support/server.ts';

let workspace: Workspace;
let database: pg.Client;

beforeAll(async () => {
  const server = await startServer();
  workspace = await new Client(server).createWorkspace();
  await workspace.uploadJobFunction('echo', 'export const main = (args) => args;');
  database = new pg.Client(server.databaseUrl);
  await database.connect();
});
afterAll(() => database.end());

/** What a mismatch must leave alone. How often bodies were started is told as it is, whatever became of them. */
const lasting = ({ revision, jobExecutions }: Execution) => ({
  revision,
  steps: jobExecutions.map(({ runs: _, usage: __, ...step }) => step),
});
const runsOf = (execution: Execution) => execution.jobExecutions.slice(1).map((step) => step.runs);
const recordsOf = async (id: string) =>
  (
    await database.query(
      'select path, status, result, error, function_version, failing_position from jobcell.journal where execution_id = $1 order by path',
      [id],
    )
  ).rows;

describe.each(replayModes)(
  'D8: an attempt that ends in a mismatch leaves everything as it was, replay %s',
  (replay) => {
    /** A workflow of three steps whose last one fails, and a version of its main that changes the first call. */
    async function threeSteps(name: string) {
      const main = (price: number) => `export function main() {
      const a = tailor.workflow.execJobFunction('echo', { price: ${price} });
      const b = tailor.workflow.execJobFunction('echo', { tax: 2 });
      return tailor.workflow.execJobFunction('${name}-part', { ...a, ...b });
    }`;
      const part = `export const main = () => { throw new Error('part'); };`;
      await workspace.uploadJobFunctions({ [`${name}-main`]: main(1), [`${name}-part`]: part });
      const workflow = `${name}-main`;
      await workspace.putWorkflow(workflow, workflow);
      const failed = await workspace.run(workflow, {}, { replay });
      expect(failed).toMatchObject({ status: 'FAILED', error: { message: 'part', at: `${workflow}/${name}-part` } });
      const mend = () => workspace.uploadJobFunction(`${name}-part`, 'export const main = (a) => a;');
      return { workflow, failed, main, mend };
    }

    test('versions, records and the error before it; a mended upload then goes on where it stood', async () => {
      const { workflow, failed, main, mend } = await threeSteps(`undo-${replay}`);
      await workspace.uploadJobFunction(workflow, main(2));
      await mend();
      const mismatch = await workspace.resume(failed.id);
      expect(mismatch).toMatchObject({
        status: 'FAILED',
        attempt: 2,
        error: { code: 'ARGUMENT_MISMATCH', at: workflow },
      });
      expect(mismatch.error!.previousError).toEqual(failed.error);
      expect(lasting(mismatch)).toEqual(lasting(failed));
      // Once more: the error that counts is still the first one.
      const again = await workspace.resume(failed.id);
      expect(again).toMatchObject({ status: 'FAILED', attempt: 3, error: { code: 'ARGUMENT_MISMATCH' } });
      expect(again.error!.previousError).toEqual(failed.error);
      expect(lasting(again)).toEqual(lasting(failed));

      await workspace.uploadJobFunction(workflow, main(1));
      const mended = await workspace.resume(failed.id);
      expect(mended).toMatchObject({ status: 'SUCCESS', error: null, result: { price: 1, tax: 2 } });
      expect(runsOf(mended)).toEqual([1, 1, 2]);
    });

    test('a resume with the pinned versions then runs what it would have run before', async () => {
      const { workflow, failed, main, mend } = await threeSteps(`undo-pinned-${replay}`);
      await workspace.uploadJobFunction(workflow, main(2));
      await mend();
      expect(await workspace.resume(failed.id)).toMatchObject({ error: { code: 'ARGUMENT_MISMATCH' } });
      const pinned = await workspace.resume(failed.id, { code: 'pinned' });
      const { at, code, message } = failed.error!;
      expect(pinned).toMatchObject({ status: 'FAILED', attempt: 3, error: { at, code, message } });
      expect(pinned.error!.previousError).toBeUndefined();
      expect(pinned.jobExecutions.map((step) => step.functionVersion)).toEqual([1, 1, 1, 1]);
    });

    test('what `from` forgot is there again', async () => {
      const { workflow, failed, main, mend } = await threeSteps(`undo-from-${replay}`);
      const before = await recordsOf(failed.id);
      await workspace.uploadJobFunction(workflow, main(2));
      await mend();
      const from = `${workflow}/1:echo`;
      expect(await workspace.resume(failed.id, { from })).toMatchObject({ error: { code: 'ARGUMENT_MISMATCH' } });
      expect(await recordsOf(failed.id)).toEqual(before);
      await workspace.uploadJobFunction(workflow, main(1));
      const mended = await workspace.resume(failed.id);
      expect(mended).toMatchObject({ status: 'SUCCESS', result: { price: 1, tax: 2 } });
      expect(runsOf(mended)).toEqual([1, 1, 2]);
    });

    test('E2: but what was finished in the attempt does not run again', async () => {
      const name = `undo-all-${replay}`;
      const call = (n: number) => `(async () => tailor.workflow.execJobFunction('${name}-part', { n: ${n} }))()`;
      const main = (...calls: number[]) =>
        `export async function main() { return await Promise.all([${calls.map(call)}]); }`;
      await workspace.uploadJobFunctions({
        [name]: main(0, 1),
        [`${name}-part`]: `export const main = ({ n }) => { if (n === 0) throw new Error('first'); return n; };`,
      });
      await workspace.putWorkflow(name, name);
      const failed = await workspace.run(name, {}, { replay });
      expect(failed.jobExecutions.map((step) => step.status)).toEqual(['FAILED', 'FAILED', 'SUCCESS']);
      await workspace.uploadJobFunction(name, main(0, 7));
      await workspace.uploadJobFunction(`${name}-part`, 'export const main = ({ n }) => n;');
      const mismatch = await workspace.resume(failed.id);
      expect(mismatch).toMatchObject({ revision: failed.revision, error: { code: 'ARGUMENT_MISMATCH' } });
      expect(mismatch.jobExecutions.map(({ status, functionVersion }) => [status, functionVersion])).toEqual([
        ['FAILED', 1],
        ['SUCCESS', 2],
        ['SUCCESS', 1],
      ]);
      const pinned = await workspace.resume(failed.id, { code: 'pinned' });
      expect(pinned).toMatchObject({ status: 'SUCCESS', result: [0, 1] });
      expect(runsOf(pinned)).toEqual([2, 1]);
    });
  },
);

test('D8: once a forgotten record has been made again, the resume stands, and nothing comes back beside it', async () => {
  const main = (args: string) => `export function main() {
    tailor.workflow.execJobFunction('echo', { n: 0 });
    tailor.workflow.execJobFunction('echo', ${args});
    throw new Error('broken');
  }`;
  await workspace.uploadJobFunction('stands', main('{ n: 1 }'));
  await workspace.putWorkflow('stands', 'stands');
  // It is replayed after each step, and then finds another argument than it recorded a moment ago.
  const failed = await workspace.run('stands', {}, { replay: 'always' });
  await workspace.uploadJobFunction('stands', main('{ now: performance.now() }'));
  const mismatch = await workspace.resume(failed.id, { from: 'stands/1:echo' });
  expect(mismatch).toMatchObject({ status: 'FAILED', error: { code: 'ARGUMENT_MISMATCH' } });
  expect(mismatch.error!.previousError).toEqual(failed.error);
  expect(mismatch.revision).toBe(failed.revision + 1);
  expect(mismatch.jobExecutions.map(({ path, status, functionVersion }) => [path, status, functionVersion])).toEqual([
    ['stands', 'SUSPEND', 2],
    ['stands/0:echo', 'SUCCESS', 1],
    ['stands/1:echo', 'SUCCESS', 1],
  ]);
  expect(mismatch.jobExecutions[2]!.args).toEqual({ now: expect.any(Number) });
});
