import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Problem, type Workspace } from '../support/client.ts';
import { startServer } from '../support/server.ts';

let admin: Client;
let workspace: Workspace;

beforeAll(async () => {
  admin = new Client(await startServer());
  workspace = await admin.createWorkspace();
  await workspace.uploadJobFunction('main-job', 'export const main = () => 1;');
  await workspace.uploadJobFunction('main-job', 'export const main = () => 2;');
});

const put = <T = unknown>(name: string, body: unknown) => admin.put<T>(`${workspace.path}/workflows/${name}`, body);
const retryPolicy = { maxRetries: 3, initialBackoff: '500ms', maxBackoff: '1m', backoffMultiplier: 2 };

test('a workflow is created, replaced, read and deleted', async () => {
  const full = {
    mainJobFunction: 'main-job',
    jobFunctions: { 'main-job': 1 },
    concurrencyPolicy: { maxConcurrentExecutions: 3 },
    retryPolicy,
  };
  const created = await put<object>('order', full);
  expect(created.status).toBe(200);
  expect(created.body).toEqual({
    name: 'order',
    ...full,
    createdAt: expect.any(String),
    updatedAt: expect.any(String),
  });
  expect((await admin.get(`${workspace.path}/workflows/order`)).body).toEqual(created.body);
  // A PUT is the whole definition: what it leaves out is gone.
  const replaced = await put('order', { mainJobFunction: 'main-job' });
  expect(replaced.body).toMatchObject({ jobFunctions: {}, concurrencyPolicy: null, retryPolicy: null });
  expect((await admin.delete(`${workspace.path}/workflows/order`)).status).toBe(204);
  expect((await admin.get(`${workspace.path}/workflows/order`)).status).toBe(404);
  expect((await admin.delete(`${workspace.path}/workflows/order`)).status).toBe(404);
});

test('the list is newest first and pages', async () => {
  const fresh = await admin.createWorkspace();
  await fresh.uploadJobFunction('m', 'export const main = () => 1;');
  for (const name of ['flow-b', 'flow-a', 'flow-c']) await fresh.putWorkflow(name, 'm');
  interface List {
    items: { name: string }[];
    nextCursor: string | null;
  }
  const first = await admin.expect<List>('GET', `${fresh.path}/workflows?limit=2`);
  expect(first.items.map((item) => item.name)).toEqual(['flow-c', 'flow-a']);
  const second = await admin.expect<List>('GET', `${fresh.path}/workflows?limit=2&cursor=${first.nextCursor}`);
  expect(second).toMatchObject({ items: [{ name: 'flow-b' }], nextCursor: null });
});

describe('a bad definition is 400, names the field, and stores nothing', () => {
  test('a main job function that does not exist: says which exist', async () => {
    const answer = await put<Problem>('bad', { mainJobFunction: 'main-jbo' });
    expect(answer.status).toBe(400);
    expect(answer.body.code).toBe('BAD_REQUEST');
    expect(answer.body.errors?.[0]?.path).toBe('mainJobFunction');
    expect(answer.body.detail).toContain('`main-jbo`');
    expect(answer.body.detail).toContain('`main-job`');
    expect((await admin.get(`${workspace.path}/workflows/bad`)).status).toBe(404);
  });

  test('a deleted one does not exist', async () => {
    await workspace.uploadJobFunction('deleted', 'export const main = () => 1;');
    await admin.delete(`${workspace.path}/job-functions/deleted`);
    expect((await put('bad', { mainJobFunction: 'deleted' })).status).toBe(400);
  });

  const cases: [string, unknown, string[]][] = [
    ['no main job function', {}, ['mainJobFunction']],
    [
      'a version that does not exist',
      { jobFunctions: { 'main-job': 3, other: 1 } },
      ['jobFunctions.main-job', 'jobFunctions.other'],
    ],
    ['a version that is none', { jobFunctions: { 'main-job': 0 } }, ['jobFunctions.main-job']],
    ['a name that is none', { jobFunctions: { 'a/b': 1 } }, ['jobFunctions.a/b']],
    [
      'a cap of 0',
      { concurrencyPolicy: { maxConcurrentExecutions: 0 } },
      ['concurrencyPolicy.maxConcurrentExecutions'],
    ],
    [
      'a cap of 1001',
      { concurrencyPolicy: { maxConcurrentExecutions: 1001 } },
      ['concurrencyPolicy.maxConcurrentExecutions'],
    ],
    [
      'a cap of 1.5',
      { concurrencyPolicy: { maxConcurrentExecutions: 1.5 } },
      ['concurrencyPolicy.maxConcurrentExecutions'],
    ],
    [
      'a cap misspelt',
      { concurrencyPolicy: { maxConcurrentExecution: 1 } },
      ['concurrencyPolicy.maxConcurrentExecutions', 'concurrencyPolicy.maxConcurrentExecution'],
    ],
    ['no retries', { retryPolicy: { ...retryPolicy, maxRetries: 0 } }, ['retryPolicy.maxRetries']],
    ['11 retries', { retryPolicy: { ...retryPolicy, maxRetries: 11 } }, ['retryPolicy.maxRetries']],
    [
      'durations that are none',
      { retryPolicy: { ...retryPolicy, initialBackoff: '1h', maxBackoff: 5 } },
      ['retryPolicy.initialBackoff', 'retryPolicy.maxBackoff'],
    ],
    ['a first backoff of 0', { retryPolicy: { ...retryPolicy, initialBackoff: '0s' } }, ['retryPolicy.initialBackoff']],
    [
      'a first backoff above 1 h',
      { retryPolicy: { ...retryPolicy, initialBackoff: '61m', maxBackoff: '70m' } },
      ['retryPolicy.initialBackoff'],
    ],
    ['a last backoff above 24 h', { retryPolicy: { ...retryPolicy, maxBackoff: '1441m' } }, ['retryPolicy.maxBackoff']],
    [
      'a last backoff below the first',
      { retryPolicy: { ...retryPolicy, maxBackoff: '499ms' } },
      ['retryPolicy.maxBackoff'],
    ],
    [
      'a multiplier below 1',
      { retryPolicy: { ...retryPolicy, backoffMultiplier: 0.5 } },
      ['retryPolicy.backoffMultiplier'],
    ],
    [
      'half a retry policy',
      { retryPolicy: { maxRetries: 1 } },
      ['retryPolicy.initialBackoff', 'retryPolicy.maxBackoff', 'retryPolicy.backoffMultiplier'],
    ],
  ];
  test.each(cases)('%s', async (name, fields, paths) => {
    const main = name === 'no main job function' ? {} : { mainJobFunction: 'main-job' };
    const answer = await put<Problem>('bad', { ...main, ...(fields as object) });
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.map((error) => error.path)).toEqual(paths);
    expect((await admin.get(`${workspace.path}/workflows/bad`)).status).toBe(404);
  });

  test.each(['ab', 'Order', 'one.two', 'x_y'])('a name outside the grammar: %s', async (name) => {
    const answer = await put<Problem>(name, { mainJobFunction: 'main-job' });
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.[0]?.path).toBe('name');
  });
});
