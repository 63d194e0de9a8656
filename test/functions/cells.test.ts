import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Client, type Problem, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { cellsOf } from '../support/server-process.ts';

const hog = 'export const main = ({ until }) => { while (Date.now() < until); return "hog"; };';
const asleep = 'export const main = ({ ms }) => new Promise((r) => setTimeout(() => r("slept"), ms));';

type Answer = { executionId: string; result: unknown; queueMs: number; runMs: number };

async function workspaceWith(client: Client, scripts: Record<string, string>): Promise<Workspace> {
  const workspace = await client.createWorkspace();
  for (const [name, script] of Object.entries(scripts)) {
    await client.expect('PUT', `${workspace.path}/functions/${name}`, { body: script });
  }
  return workspace;
}

const invoke = <T = Answer>(workspace: Workspace, name: string, args: object = {}) =>
  workspace.client.post<T>(`${workspace.path}/functions/${name}/invoke`, { args });
const list = (workspace: Workspace, query: string) =>
  workspace.client.expect<{ items: { id: string; status: string }[] }>(
    'GET',
    `${workspace.path}/function-executions${query}`,
  );

const children = (server: TestServer) => cellsOf(server.pid);

test('hogs of one workspace on all cells but the reserve do not keep another one waiting (fairness)', async () => {
  // 6 cells: 2 in the reserve, one of which no single workspace gets.
  const server = await startServer({ env: { JOBCELL_CELLS: '6', JOBCELL_FUNCTION_CPU_MS: '60000' } });
  const client = new Client(server);
  const hogs = await workspaceWith(client, { hog });
  const clean = await workspaceWith(client, { hello: 'export const main = () => "hello";' });
  await hogs.uploadJobFunction('hog', hog);
  await hogs.putWorkflow('hog-flow', 'hog');
  const until = Date.now() + 20_000;
  const runs = await Promise.all(Array.from({ length: 8 }, () => hogs.start('hog-flow', { until })));
  await expect
    .poll(
      async () =>
        (await Promise.all(runs.map((id) => hogs.getExecution(id)))).filter((run) => run.stack.length > 0).length,
      { timeout: 12_000 },
    )
    .toBe(4);
  // The fifth cell is the last that this workspace can have; its other functions wait, in vain.
  const functions = Array.from({ length: 6 }, () => invoke<Answer & Problem>(hogs, 'hog', { until }));
  const answer = await invoke(clean, 'hello');
  expect(answer.body.result).toBe('hello');
  const statuses = (await Promise.all(runs.map((id) => hogs.getExecution(id)))).map(({ status }) => status);
  expect(statuses.toSorted()).toEqual([...Array(4).fill('PENDING'), ...Array(4).fill('RUNNING')]);
  const answers = await Promise.all(functions);
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(1);
  const overloaded = answers.find(({ status }) => status === 503)!;
  expect(overloaded.body).toMatchObject({ code: 'OVERLOADED', detail: expect.stringContaining('5000 ms') });
  expect(overloaded.headers.get('retry-after')).toBe('1');
  expect((await Promise.all(runs.map((id) => hogs.finished(id)))).every(({ status }) => status === 'SUCCESS')).toBe(
    true,
  );
});

test('a cell that somebody kills is 503 CELL_LOST, and the function is not run again', async () => {
  const server = await startServer({ env: { JOBCELL_CELLS: '2' } });
  const workspace = await workspaceWith(new Client(server), { asleep });
  const answer = invoke<Problem & { executionId: string; usage: object; logs: object[] }>(workspace, 'asleep', {
    ms: 30_000,
  });
  while ((await list(workspace, '?status=RUNNING')).items.length === 0) await sleep(50);
  const killed = children(server);
  for (const pid of killed) process.kill(pid, 'SIGKILL');
  const { status, headers, body } = await answer;
  expect(status).toBe(503);
  expect(headers.get('retry-after')).toBe('1');
  expect(body).toMatchObject({ code: 'CELL_LOST', logs: [], usage: { memoryLimitBytes: 32 * 1024 * 1024 } });
  expect((await list(workspace, '')).items).toMatchObject([{ id: body.executionId, status: 'FAILED' }]);
  // A killed cell that has yet to go could still be handed out, and would be lost as well.
  await expect.poll(() => children(server).some((pid) => killed.includes(pid)), { timeout: 10_000 }).toBe(false);
  expect((await invoke(workspace, 'asleep', { ms: 1 })).body.result).toBe('slept');
});

test('D30: at a stop, what ends within the grace is answered; the rest is 503, and all of it is recorded', async () => {
  const server = await startServer();
  const workspace = await workspaceWith(new Client(server), { asleep });
  const short = invoke(workspace, 'asleep', { ms: 3_000 });
  const long = invoke<Problem & { executionId: string }>(workspace, 'asleep', { ms: 50_000 });
  while ((await list(workspace, '?status=RUNNING')).items.length < 2) await sleep(50);
  expect(await server.stop()).toBe(0);
  expect(await short).toMatchObject({ status: 200, body: { result: 'slept' } });
  const ended = await long;
  expect(ended).toMatchObject({
    status: 503,
    body: { code: 'UNAVAILABLE', detail: expect.stringContaining('server stops') },
  });
  await server.restart();
  const { items } = await list(workspace, '');
  expect(items.map(({ status }) => status).sort()).toEqual(['FAILED', 'SUCCESS']);
  expect(items.find(({ status }) => status === 'FAILED')!.id).toBe(ended.body.executionId);
});

test('a workspace that is deleted under a function takes the record along', async () => {
  const server = await startServer({ env: { JOBCELL_CELLS: '2' } });
  const client = new Client(server);
  const workspace = await workspaceWith(client, { asleep });
  const answer = invoke(workspace, 'asleep', { ms: 1_500 });
  while ((await list(workspace, '?status=RUNNING')).items.length === 0) await sleep(20);
  expect((await client.delete(workspace.path)).status).toBe(204);
  expect(await answer).toMatchObject({ status: 200, body: { result: 'slept' } });
  const other = await workspaceWith(client, { asleep });
  const { body } = await invoke(other, 'asleep', { ms: 1 });
  expect((await list(other, '')).items).toMatchObject([{ id: body.executionId, status: 'SUCCESS' }]);
  expect(server.logs()).not.toContain('could not be recorded');
});
