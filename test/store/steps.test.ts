import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isConnectionError } from '../../src/store/connection-errors.ts';
import { openPool, type Pool } from '../../src/store/database.ts';
import { migrate } from '../../src/store/migrate.ts';
import { createStepWriter } from '../../src/store/step-writer.ts';
import {
  commitEnds,
  commitLogs,
  commitStarts,
  type LogRow,
  type StepEnd,
  type StepStart,
} from '../../src/store/steps.ts';
import { createDatabase } from '../support/database.ts';

/** A statement whose answer was lost is sent again, and its first sending may come late (D3). */
let pool: Pool;
let url: string;
const workspaceId = uuidv7();

beforeAll(async () => {
  url = await createDatabase();
  pool = openPool(url, { max: 4, onError: () => {} });
  await migrate(pool, pino({ level: 'silent' }));
  await pool.query('insert into workspaces (id, name) values ($1, $2)', [workspaceId, 'steps']);
});
afterAll(() => pool.end());

async function running(fence = 1): Promise<string> {
  const id = uuidv7();
  await pool.query(
    `insert into executions (workspace_id, id, workflow, main_job_function, status, args, revision, seed, fence)
     values ($1, $2, 'flow', 'main', 'RUNNING', '{}', 1, $3, $4)`,
    [workspaceId, id, randomBytes(32), fence],
  );
  return id;
}

const path = 'main/0:step';
const line = (id: number, message: string): LogRow => ({
  id,
  path,
  run: 1,
  at: Date.now(),
  level: 'info',
  message,
  attributes: null,
});
const startOf = (executionId: string, more: Partial<StepStart> = {}): StepStart => ({
  workspaceId,
  executionId,
  fence: 1,
  stack: { frames: 2, keys: [] },
  path,
  parentPath: 'main',
  position: 0,
  id: uuidv7(),
  name: 'step',
  args: '{}',
  executionPolicyKey: null,
  functionVersion: 1,
  memoryLimitBytes: 1,
  run: 1,
  recordedRun: 1,
  clock: null,
  logs: [line(1, 'before')],
  ...more,
});
const endOf = (executionId: string, more: Partial<StepEnd> = {}): StepEnd => ({
  workspaceId,
  executionId,
  fence: 1,
  stack: { frames: 1, keys: [] },
  path,
  run: 1,
  status: 'SUCCESS',
  result: '"first"',
  error: null,
  usage: null,
  failingPosition: null,
  logs: [line(2, 'inside')],
  ...more,
});
const recordsOf = async (id: string) =>
  (await pool.query('select status, result, runs, finished_at from journal where execution_id = $1', [id])).rows;
const linesOf = async (id: string) =>
  (await pool.query('select message from logs where execution_id = $1 order by id', [id])).rows.map(
    (row) => row.message,
  );

test('D3: starts and ends that are sent again change nothing, whatever comes late', async () => {
  const id = await running();
  const key = `${id} ${path}`;
  expect(await commitStarts(pool, [startOf(id)])).toEqual(new Map([[key, 'started']]));
  expect(await commitStarts(pool, [startOf(id)])).toEqual(new Map([[key, 'started']]));
  expect(await commitEnds(pool, [endOf(id)])).toEqual(new Set([key]));
  const ended = await recordsOf(id);
  expect(ended).toMatchObject([{ status: 'SUCCESS', result: '"first"', runs: 1 }]);
  expect(await commitEnds(pool, [endOf(id)])).toEqual(new Set([key]));
  // The first sending of the start, late: it must not open again what has ended (E2), nor be taken for a start.
  expect(await commitStarts(pool, [startOf(id)])).toEqual(new Map());
  expect(await commitStarts(pool, [startOf(id, { run: 2 })])).toEqual(new Map());
  expect(await recordsOf(id)).toEqual(ended);
  expect(await linesOf(id)).toEqual(['before', 'inside']);
});

test('D3: an end of a run before the current one is not its end', async () => {
  const id = await running();
  await commitStarts(pool, [startOf(id)]);
  await commitEnds(pool, [endOf(id, { status: 'FAILED', result: null, error: '{}' })]);
  // A resume runs it again (D9).
  await commitStarts(pool, [startOf(id, { run: 2 })]);
  expect(await commitEnds(pool, [endOf(id)])).toEqual(new Set());
  expect(await commitStarts(pool, [startOf(id)])).toEqual(new Map());
  expect(await recordsOf(id)).toMatchObject([{ status: 'RUNNING', result: null, runs: 2 }]);
});

test('E3, D2: under another fence nothing is written, and the neighbours in the statement are', async () => {
  const [lost, held] = [await running(2), await running()];
  expect(await commitStarts(pool, [startOf(lost), startOf(held)])).toEqual(new Map([[`${held} ${path}`, 'started']]));
  expect(await commitEnds(pool, [endOf(lost), endOf(held)])).toEqual(new Set([`${held} ${path}`]));
  await commitLogs(pool, startOf(lost), [line(3, 'late')]);
  expect(await recordsOf(lost)).toEqual([]);
  expect(await linesOf(lost)).toEqual([]);
  expect(await recordsOf(held)).toMatchObject([{ status: 'SUCCESS' }]);
});

test('large entries do not come together in one statement', async () => {
  const sizes: number[] = [];
  const watched = Object.assign(Object.create(pool) as Pool, {
    query: (statement: { text: string; values: unknown[] }) => {
      sizes.push(JSON.stringify(statement.values).length);
      return pool.query(statement);
    },
  });
  const writer = createStepWriter(watched);
  const args = JSON.stringify('x'.repeat(3_000_000));
  const executions = await Promise.all(Array.from({ length: 7 }, () => running()));
  const main = { path: 'main', parentPath: '', name: 'main', stack: { frames: 1, keys: [] }, args };
  const outcomes = await Promise.all(executions.map((id) => writer.start(startOf(id, main))));
  expect(outcomes).toEqual(executions.map(() => 'started'));
  expect(sizes.length).toBeGreaterThan(3);
  expect(Math.max(...sizes)).toBeLessThan(9_000_000);
  const { rows } = await pool.query('select count(*)::int as count from journal where length(args) > 3000000');
  expect(rows).toEqual([{ count: 7 }]);
});

test('a connection that PostgreSQL ended since it was idle is a lost one', async () => {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  await client.query('set idle_session_timeout = 50');
  await sleep(500);
  const error = await client.query('select 1').then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(isConnectionError(error)).toBe(true);
  const told = Object.assign(new Error('terminating connection due to idle-session timeout'), { code: '57P05' });
  expect(isConnectionError(told)).toBe(true);
});
