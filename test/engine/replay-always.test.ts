import { beforeAll, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { startServer } from '../support/server.ts';

let workspace: Workspace;

beforeAll(async () => {
  workspace = await new Client(await startServer({ env: { JOBCELL_REPLAY: 'always' } })).createWorkspace();
  await workspace.uploadJobFunctions({
    step: 'export const main = (args) => args;',
    steady: `export function main() {
      for (const n of [1, 2, 3]) tailor.workflow.execJobFunction('step', { n, at: Date.now(), by: Math.random() });
      return 'done';
    }`,
    unsteady: `export function main() {
      for (const n of [1, 2]) tailor.workflow.execJobFunction('step', { n, took: performance.now() });
      return 'done';
    }`,
  });
  for (const name of ['steady', 'unsteady']) await workspace.putWorkflow(name, name);
});

test('D15: with JOBCELL_REPLAY=always a replay follows every step, and what is not deterministic shows at once', async () => {
  const steady = await workspace.run('steady');
  expect(steady).toMatchObject({ status: 'SUCCESS', result: 'done', attempt: 1 });
  expect(steady.jobExecutions.map(({ runs }) => runs)).toEqual([4, 1, 1, 1]);
  const unsteady = await workspace.run('unsteady');
  expect(unsteady).toMatchObject({ status: 'FAILED', attempt: 1, error: { code: 'ARGUMENT_MISMATCH' } });
  expect(unsteady.error!.message).toContain('position 0');
  // A start that says otherwise runs straight through.
  const straight = await workspace.run('unsteady', {}, { replay: 'auto' });
  expect(straight).toMatchObject({ status: 'SUCCESS', result: 'done' });
  expect(straight.jobExecutions.map(({ runs }) => runs)).toEqual([1, 1, 1]);
});
