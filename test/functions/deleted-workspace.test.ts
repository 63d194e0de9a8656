import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Client, type Problem, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

const asleep = 'export const main = () => new Promise((r) => setTimeout(r, 55_000));';
const busy = 'export const main = () => { for (;;); };';

let server: TestServer;
let client: Client;
let database: pg.Client;

beforeAll(async () => {
  server = await startServer({ env: { JOBCELL_CELLS: '3', JOBCELL_FUNCTION_CPU_MS: '55000' } });
  client = new Client(server);
  database = new pg.Client({ connectionString: server.databaseUrl, options: '-c search_path=jobcell' });
  await database.connect();
});
afterAll(() => database.end());

const running = async ({ path }: Workspace) =>
  (await client.expect<{ items: object[] }>('GET', `${path}/function-executions?status=RUNNING`)).items.length;

test('D31: a workspace deleted by force ends its functions, test runs too, and their cells are free', async () => {
  const workspace = await client.createWorkspace();
  await client.expect('PUT', `${workspace.path}/functions/asleep`, { body: asleep });
  const answers = [
    client.post<Problem & { executionId?: string }>(`${workspace.path}/functions/asleep/invoke`, {}),
    client.post<Problem & { executionId?: string }>(`${workspace.path}/functions/test-run`, {
      script: busy,
      type: 'JOB',
    }),
  ];
  while ((await running(workspace)) < 2) await sleep(20);
  expect((await client.delete(`${workspace.path}?force=true`)).status).toBe(202);
  for (const { status, body } of await Promise.all(answers)) {
    expect(status).toBe(409);
    expect(body).toMatchObject({ code: 'CONFLICT', detail: expect.stringContaining('is being deleted') });
    expect(body.executionId).toBeDefined();
  }
  await expect.poll(async () => (await client.get(workspace.path)).status, { timeout: 30_000 }).toBe(404);
  // Each of the cells takes something new.
  const other = await client.createWorkspace();
  const run = () => client.post(`${other.path}/functions/test-run`, { script: 'export const main = () => 1;' });
  expect((await Promise.all([run(), run(), run()])).map(({ status }) => status)).toEqual([200, 200, 200]);
});

test('D31: function executions go in batches with their workspace, in the background or before the answer', async () => {
  for (const force of [true, false]) {
    const workspace = await client.createWorkspace();
    await client.post(`${workspace.path}/functions/test-run`, { script: 'export const main = () => 1;' });
    await database.query(
      `insert into function_executions (workspace_id, id, type, status, args_size, queue_ms, memory_limit_bytes, holder,
                                        created_at, started_at, finished_at)
       select id, gen_random_uuid(), 'STANDARD', 'SUCCESS', 2, 0, 1, gen_random_uuid(), now(), now(), now()
       from workspaces, generate_series(1, 450) where name = $1`,
      [workspace.name],
    );
    // A statement that takes more than a batch is refused, so one that cascades would leave the workspace there.
    await database.query(
      `create or replace function at_most_a_batch() returns trigger language plpgsql as $$
       begin
         if (select count(*) from gone) > 200 then raise exception 'too many rows at once'; end if;
         return null;
       end $$`,
    );
    await database.query(
      `create or replace trigger at_most_a_batch after delete on function_executions referencing old table as gone
       for each statement execute function at_most_a_batch()`,
    );
    const [{ id }] = (await database.query('select id from workspaces where name = $1', [workspace.name])).rows;
    const { status } = await client.delete(`${workspace.path}?force=${force}`);
    expect(status).toBe(force ? 202 : 204);
    await expect.poll(async () => (await client.get(workspace.path)).status, { timeout: 30_000 }).toBe(404);
    expect((await database.query('select from function_executions where workspace_id = $1', [id])).rowCount).toBe(0);
  }
});
