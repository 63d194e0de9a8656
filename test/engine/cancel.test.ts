import { beforeAll, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { startServer } from '../support/server.ts';

let workspace: Workspace;

beforeAll(async () => {
  // Two for runs: two more stay for functions.
  workspace = await new Client(await startServer({ env: { JOBCELL_CELLS: '4' } })).createWorkspace();
  await workspace.uploadJobFunctions({
    busy: 'export function main() { for (;;); }',
    sleeper: 'export async function main() { await new Promise((r) => setTimeout(r, 30_000)); }',
    parent: `export const main = () => { try { return tailor.workflow.execJobFunction('sleeper'); } catch { return 'swallowed'; } };`,
    waiter: `export const main = () => tailor.workflow.wait('the-key');`,
    quick: 'export const main = () => 1;',
  });
  for (const name of ['busy', 'sleeper', 'parent', 'waiter', 'quick']) await workspace.putWorkflow(name, name);
});

test.each(['busy', 'sleeper', 'parent'])(
  'D29: a running %s is stopped, and its cell serves others',
  async (workflow) => {
    const ids = [await workspace.start(workflow), await workspace.start(workflow)];
    for (const id of ids) await workspace.until(id, (execution) => execution.stack.length > 0);
    for (const id of ids) expect((await workspace.cancel(id)).status).toBe(202);
    for (const id of ids) expect(await workspace.getExecution(id)).toMatchObject({ status: 'CANCELED', stack: [] });
    // Both cells were taken; this runs only once they are free again.
    expect(await workspace.run('quick')).toMatchObject({ status: 'SUCCESS' });
    for (const id of ids) {
      const { status, jobExecutions } = await workspace.getExecution(id);
      expect({ status, steps: new Set(jobExecutions.map((step) => step.status)) }).toEqual({
        status: 'CANCELED',
        steps: new Set(['CANCELED']),
      });
    }
  },
);

test('what is WAITING or PENDING is canceled as well; canceling again is no error', async () => {
  const waiting = await workspace.start('waiter');
  await workspace.until(waiting, (execution) => execution.status === 'WAITING');
  const running = [await workspace.start('sleeper'), await workspace.start('sleeper')];
  for (const id of running) await workspace.until(id, (execution) => execution.status === 'RUNNING');
  const pending = await workspace.start('quick');
  for (const id of [waiting, pending, ...running]) expect((await workspace.cancel(id)).status).toBe(202);
  for (const id of [waiting, pending, ...running]) expect((await workspace.cancel(id)).status).toBe(202);
  for (const id of [waiting, pending]) expect((await workspace.getExecution(id)).status).toBe('CANCELED');
  expect(await workspace.resolve(waiting, 'the-key')).toMatchObject({ status: 404 });
});

test('what has ended cannot be canceled, and an unknown one is not found', async () => {
  const { id } = await workspace.run('quick');
  expect(await workspace.cancel(id)).toMatchObject({ status: 409, body: { code: 'CONFLICT' } });
  expect(await workspace.cancel('nothing')).toMatchObject({ status: 404 });
});

test('a canceled execution can be resumed', async () => {
  await workspace.uploadJobFunctions({
    'resumable-main': `export const main = () => [tailor.workflow.execJobFunction('quick'), tailor.workflow.execJobFunction('resumable-part')];`,
    'resumable-part': 'export function main() { for (;;); }',
  });
  await workspace.putWorkflow('resumable', 'resumable-main');
  const id = await workspace.start('resumable');
  await workspace.until(id, (execution) => execution.stack.at(-1) === 'resumable-part');
  await workspace.cancel(id);
  await workspace.uploadJobFunction('resumable-part', 'export const main = () => 2;');
  const resumed = await workspace.resume(id);
  expect(resumed).toMatchObject({ status: 'SUCCESS', result: [1, 2], attempt: 2 });
  expect(resumed.jobExecutions.find((step) => step.name === 'quick')!.runs).toBe(1);
});
