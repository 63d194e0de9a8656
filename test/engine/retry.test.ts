import { beforeAll, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { startServer } from '../support/server.ts';

let workspace: Workspace;

beforeAll(async () => {
  workspace = await new Client(await startServer()).createWorkspace();
  await workspace.uploadJobFunctions({
    step: 'export const main = () => 1;',
    fails: `export const main = () => { throw new Error('always'); };`,
    main: `export function main() { const a = tailor.workflow.execJobFunction('step'); tailor.workflow.execJobFunction('fails'); return a; }`,
    deep: `export const main = ({ n = 0 }) => tailor.workflow.execJobFunction('deep', { n: n + 1 });`,
  });
});

const policy = { maxRetries: 2, initialBackoff: '50ms', maxBackoff: '1s', backoffMultiplier: 2 };

test('D27: a failing execution is tried again as often as its policy says, then it is FAILED', async () => {
  await workspace.putWorkflow('retries', { mainJobFunction: 'main', retryPolicy: policy });
  const ended = await workspace.run('retries');
  expect(ended).toMatchObject({ status: 'FAILED', attempt: 3, retryCount: 2, error: { message: 'always' } });
  expect(Object.fromEntries(ended.jobExecutions.map((step) => [step.name, step.runs]))).toEqual({
    main: 3,
    step: 1,
    fails: 3,
  });
});

test('D27: while it waits for its next attempt it says when that is, and a person can resume it at once', async () => {
  await workspace.uploadJobFunction('flaky', `export const main = () => { throw new Error('not yet'); };`);
  await workspace.putWorkflow('patient', {
    mainJobFunction: 'flaky',
    retryPolicy: { ...policy, initialBackoff: '60m', maxBackoff: '60m' },
  });
  const id = await workspace.start('patient');
  const waiting = await workspace.until(id, (execution) => execution.status === 'PENDING_RETRY');
  expect(waiting).toMatchObject({ retryCount: 1, attempt: 2, error: { message: 'not yet' }, stack: [] });
  expect(waiting.waitingFor).toEqual({ reason: 'RETRY', retryAfter: waiting.retryAfter });
  await workspace.uploadJobFunction('flaky', 'export const main = () => 7;');
  // D27: a person's resume begins the count anew.
  expect(await workspace.resume(id)).toMatchObject({ status: 'SUCCESS', result: 7, retryCount: 0, attempt: 3 });
});

test('D27: what would end the same way is not tried again', async () => {
  await workspace.putWorkflow('deep', { mainJobFunction: 'deep', retryPolicy: policy });
  expect(await workspace.run('deep')).toMatchObject({
    status: 'FAILED',
    attempt: 1,
    retryCount: 0,
    error: { code: 'STACK_LIMIT_EXCEEDED' },
  });
});
