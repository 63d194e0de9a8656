import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Client } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let client: Client;
let database: pg.Client;

beforeAll(async () => {
  server = await startServer();
  client = new Client(server);
  database = new pg.Client({ connectionString: server.databaseUrl, options: '-c search_path=jobcell' });
  await database.connect();
});
afterAll(() => database.end());

/** P1: there is one clock, and tests move it through one function. */
const moveClock = (days: number) =>
  database.query(
    `create or replace function jobcell_now() returns timestamptz language sql stable parallel safe
     as 'select now() + interval ''${days} days'''`,
  );

async function workspaceWithRuns(runs: number) {
  const workspace = await client.createWorkspace();
  await workspace.uploadJobFunctions({
    quick: 'export const main = (a) => { console.log("line"); return a; };',
    waiter: `export const main = () => tailor.workflow.wait('the-key');`,
  });
  await workspace.putWorkflow('quick', 'quick');
  await workspace.putWorkflow('waiter', 'waiter');
  const ids: string[] = [];
  for (let n = 0; n < runs; n++) ids.push((await workspace.run('quick', { n })).id);
  return { workspace, ids };
}

test('D32: finished executions go after their retention, with journal, logs and idempotency keys; unfinished ones stay', async () => {
  const { workspace, ids } = await workspaceWithRuns(3);
  const parked = await workspace.start('waiter');
  await workspace.until(parked, (execution) => execution.status === 'WAITING');
  const keyed = (key: string) =>
    client.post<{ executionId: string }>(
      `${workspace.path}/workflows/quick/start?wait=30`,
      {},
      { headers: { 'idempotency-key': key } },
    );
  const first = await keyed('again');
  // Version 2 is current from now on; version 1 is what the executions so far can reach.
  await workspace.uploadJobFunction('quick', 'export const main = () => 2;');
  const retention = `${workspace.path}/retention`;
  expect((await client.post(retention, { dryRun: true })).body).toMatchObject({ dryRun: true, executions: 0 });
  try {
    await moveClock(31);
    expect((await client.post(retention, { dryRun: true })).body).toMatchObject({ dryRun: true, executions: 4 });
    expect((await workspace.getExecution(ids[0]!)).status).toBe('SUCCESS');
    await client.put(workspace.path, { retentionDays: 40 });
    expect((await client.post(retention, { dryRun: true })).body).toMatchObject({ executions: 0 });
    await client.put(workspace.path, { retentionDays: 30 });
    expect((await client.post(retention, {})).body).toMatchObject({ dryRun: false, executions: 4 });
    for (const id of ids) expect((await client.get(`${workspace.path}/executions/${id}`)).status).toBe(404);
    const left = await database.query(
      `select (select count(*)::int from journal where execution_id = any($1::uuid[])) as records,
              (select count(*)::int from logs where execution_id = any($1::uuid[])) as lines`,
      [ids],
    );
    expect(left.rows).toEqual([{ records: 0, lines: 0 }]);
    expect((await workspace.getExecution(parked)).status).toBe('WAITING');
    const second = await keyed('again');
    expect(second.body).not.toMatchObject({ id: (first.body as { id?: string }).id });
  } finally {
    await moveClock(0);
  }
});

test('D31: a workspace with unfinished executions is deleted only by force: all is canceled, and its rows go', async () => {
  const { workspace } = await workspaceWithRuns(2);
  await workspace.uploadJobFunction('busy', 'export function main() { for (;;); }');
  await workspace.putWorkflow('busy', 'busy');
  const busy = await workspace.start('busy');
  const parked = await workspace.start('waiter');
  await workspace.until(busy, (execution) => execution.stack.length > 0);
  await workspace.until(parked, (execution) => execution.status === 'WAITING');
  expect(await client.delete(workspace.path)).toMatchObject({ status: 409, body: { code: 'CONFLICT' } });

  expect(await client.delete(`${workspace.path}?force=true`)).toMatchObject({
    status: 202,
    body: { status: 'DELETING' },
  });
  const refused = await client.post(`${workspace.path}/workflows/quick/start`, {});
  expect([404, 409]).toContain(refused.status);
  await expect.poll(async () => (await client.get(workspace.path)).status, { timeout: 30_000 }).toBe(404);
  const left = await database.query('select count(*)::int as rows from executions where id = any($1::uuid[])', [
    [busy, parked],
  ]);
  expect(left.rows).toEqual([{ rows: 0 }]);
  // The name is free again.
  expect((await client.put(workspace.path, {})).status).toBe(200);
});
