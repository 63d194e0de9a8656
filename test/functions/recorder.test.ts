import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createRecorder } from '../../src/functions/recorder.ts';
import { openPool, type Pool } from '../../src/store/database.ts';
import {
  type FunctionRecord,
  getFunctionExecution,
  listFunctionExecutions,
  listFunctionLogs,
  storedJson,
} from '../../src/store/function-executions.ts';
import { migrate } from '../../src/store/migrate.ts';
import { putWorkspace } from '../../src/store/workspaces.ts';
import { createDatabase } from '../support/database.ts';

let pool: Pool;
let workspaceId: string;
const errors: string[] = [];
const logger = pino({ level: 'error' }, { write: (line: string) => void errors.push(line) });

beforeAll(async () => {
  pool = openPool(await createDatabase(), { max: 4, onError: () => {} });
  await migrate(pool, pino({ level: 'silent' }));
  ({ id: workspaceId } = await putWorkspace(pool, 'recorder'));
});
afterAll(() => pool.end());

const record = (more: Partial<FunctionRecord> = {}): FunctionRecord => ({
  workspaceId,
  id: randomUUID(),
  name: 'f',
  version: 1,
  type: 'STANDARD',
  status: 'SUCCESS',
  args: storedJson('{}'),
  result: storedJson('1'),
  error: null,
  usage: { peakMemoryBytes: 1, memoryLimitBytes: 32, cpuMs: 1, wallMs: 1 },
  memoryLimitBytes: 32,
  queueMs: 1,
  runMs: 2,
  at: performance.now(),
  holder: randomUUID(),
  logs: [],
  ...more,
});
const statusOf = async ({ id }: FunctionRecord) => (await getFunctionExecution(pool, workspaceId, id))?.status;

test('one record that the database refuses fails no other one, and is told (D33)', async () => {
  const recorder = createRecorder(pool, logger);
  const records = Array.from({ length: 150 }, (_, n) => record(n === 70 ? { error: 'a\0b' } : {}));
  await Promise.all(records.map((each) => recorder.add(each)));
  await recorder.written();
  const { items } = await listFunctionExecutions(pool, workspaceId, { limit: 200 });
  expect(items.length).toBe(149);
  expect(await statusOf(records[70]!)).toBe(undefined);
  expect(errors.join('')).toContain(records[70]!.id);
});

test('the end takes the place of the RUNNING row, written before or still waiting', async () => {
  const recorder = createRecorder(pool, logger);
  const lines = [{ at: Date.now(), level: 'info' as const, message: 'a line' }];
  for (const pause of [true, false]) {
    const running = record({ status: 'RUNNING', result: null, usage: null });
    await recorder.add(running);
    if (pause) {
      await recorder.written();
      expect(await statusOf(running)).toBe('RUNNING');
    }
    await recorder.add({ ...running, status: 'FAILED', error: '{}', logs: lines });
    await recorder.written();
    expect(await statusOf(running)).toBe('FAILED');
    const logs = await listFunctionLogs(pool, workspaceId, { id: running.id, step: null }, { limit: 10 });
    expect(logs.items.map(({ message }) => message)).toEqual(['a line']);
  }
});

test('what is held is bounded: above that, adding waits (S4)', async () => {
  const recorder = createRecorder(pool, logger);
  const message = 'x'.repeat(1_000_000);
  const large = () => record({ logs: [{ at: Date.now(), level: 'info', message }] });
  const order: string[] = [];
  const added = Array.from({ length: 40 }, (_, n) => recorder.add(large()).then(() => order.push(`added ${n}`)));
  await Promise.resolve();
  // Nothing can have been written yet.
  expect(order.length).toBeLessThan(40);
  await Promise.all(added);
  await recorder.drain(30_000);
  expect(errors.filter((line) => line.includes('not recorded'))).toEqual([]);
});

test('a broken connection loses nothing', async () => {
  const recorder = createRecorder(pool, logger);
  const records = Array.from({ length: 20 }, () => record());
  for (const [n, each] of records.entries()) {
    await recorder.add(each);
    if (n % 5 === 0) {
      await pool
        .query(
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
        )
        .catch(() => {});
    }
  }
  await recorder.written();
  expect(await Promise.all(records.map(statusOf))).toEqual(records.map(() => 'SUCCESS'));
});
