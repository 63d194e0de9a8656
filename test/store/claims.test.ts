import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { pino } from 'pino';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { claimExecutions } from '../../src/store/claims.ts';
import { openPool, type Pool } from '../../src/store/database.ts';
import { insertExecution } from '../../src/store/executions.ts';
import { migrate } from '../../src/store/migrate.ts';
import { expireLease, registerServer, removeServer, takeOverExpired } from '../../src/store/servers.ts';
import { createDatabase } from '../support/database.ts';

let pool: Pool;
const workspaceId = uuidv7();
const leaseMs = 60_000;

beforeAll(async () => {
  pool = openPool(await createDatabase(), { max: 4, onError: () => {} });
  await migrate(pool, pino({ level: 'silent' }));
  await pool.query('insert into workspaces (id, name) values ($1, $2)', [workspaceId, 'claims']);
  await pool.query(`insert into workflows (workspace_id, name, main_job_function) values ($1, 'flow', 'main')`, [
    workspaceId,
  ]);
});
beforeEach(() => pool.query('delete from executions'));
afterAll(() => pool.end());

async function start(): Promise<string> {
  const id = uuidv7();
  await insertExecution(pool, {
    id,
    workspaceId,
    workflow: 'flow',
    args: '{}',
    invoker: null,
    depth: 0,
    parent: null,
    replay: 'auto',
    seed: randomBytes(32),
    idempotencyKey: null,
  });
  return id;
}

async function serverWithLease(): Promise<string> {
  const id = uuidv7();
  await registerServer(pool, id, leaseMs);
  return id;
}

const stateOf = async (id: string) =>
  (await pool.query('select status, holder from executions where id = $1', [id])).rows[0];

test('D1: a claim that arrives after its lease has run out, or was taken away, takes nothing', async () => {
  const id = await start();
  const expired = await serverWithLease();
  await expireLease(pool, expired);
  expect((await claimExecutions(pool, expired, 10)).claimed).toEqual([]);
  const removed = await serverWithLease();
  await removeServer(pool, removed);
  expect((await claimExecutions(pool, removed, 10)).claimed).toEqual([]);
  const standing = await serverWithLease();
  expect((await claimExecutions(pool, standing, 10)).claimed).toMatchObject([{ executionId: id, fence: 1 }]);
});

test('E6: a takeover frees what a server holds that has no lease any more', async () => {
  const id = await start();
  const server = await serverWithLease();
  expect((await claimExecutions(pool, server, 10)).claimed).toMatchObject([{ executionId: id }]);
  expect(await takeOverExpired(pool)).toBe(0);
  // As a claim leaves it that committed while the lease was taken away.
  await removeServer(pool, server);
  expect(await takeOverExpired(pool)).toBe(1);
  expect(await stateOf(id)).toEqual({ status: 'PENDING_RESUME', holder: null });
});

test('D2: a takeover that had to wait for a row leaves it alone when it was freed and claimed meanwhile', async () => {
  const id = await start();
  const dead = await serverWithLease();
  const { claimed } = await claimExecutions(pool, dead, 10);
  expect(claimed).toMatchObject([{ executionId: id, fence: 1 }]);
  await expireLease(pool, dead);
  const other = new pg.Client(pool.options.connectionString);
  await other.connect();
  await other.query('begin');
  await other.query('select from jobcell.executions where id = $1 for update', [id]);
  const takeover = takeOverExpired(pool);
  for (;;) {
    const { rows } = await pool.query(`select 1 from pg_stat_activity where wait_event_type = 'Lock'`);
    if (rows.length > 0) break;
  }
  const late = uuidv7();
  await other.query(`insert into jobcell.servers (id, expires_at) values ($1, now() + interval '1 hour')`, [late]);
  await other.query('update jobcell.executions set holder = $2, fence = fence + 2 where id = $1', [id, late]);
  await other.query('commit');
  await other.end();
  expect(await takeover).toBe(0);
  expect(await stateOf(id)).toEqual({ status: 'RUNNING', holder: late });
});
