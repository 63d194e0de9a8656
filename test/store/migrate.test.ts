import { pino } from 'pino';
import { afterEach, expect, test } from 'vitest';
import { openPool, type Pool } from '../../src/store/database.ts';
import { migrate } from '../../src/store/migrate.ts';
import { createDatabase } from '../support/database.ts';

const logger = pino({ level: 'silent' });
const pools: Pool[] = [];

afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.end();
});

function open(url: string): Pool {
  const pool = openPool(url, {
    max: 2,
    onError: (error) => {
      throw error;
    },
  });
  pools.push(pool);
  return pool;
}

const applied = async (pool: Pool) => (await pool.query('select name, applied_at from jobcell.migrations')).rows;

test('several servers that start at once apply each migration once, and a later start none', async () => {
  const url = await createDatabase();
  const first = open(url);
  const fleet = [first, open(url), open(url), open(url)];
  await Promise.all(fleet.map((pool) => migrate(pool, logger)));
  const rows = await applied(first);
  expect(rows.length).toBeGreaterThan(0);
  await migrate(first, logger);
  expect(await applied(first)).toEqual(rows);
});

test('everything lies in the schema jobcell', async () => {
  const pool = open(await createDatabase());
  await migrate(pool, logger);
  const { rows } = await pool.query(
    `select distinct table_schema from information_schema.tables
     where table_schema not in ('pg_catalog', 'information_schema')`,
  );
  expect(rows).toEqual([{ table_schema: 'jobcell' }]);
});

test('a database that a newer build has migrated is refused', async () => {
  const pool = open(await createDatabase());
  await migrate(pool, logger);
  await pool.query(`insert into jobcell.migrations (name, checksum) values ('9999_later', 'x')`);
  await expect(migrate(pool, logger)).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringMatching(/9999_later.*newer jobcell/),
  });
});

test('a migration whose content changed after it was applied is refused', async () => {
  const pool = open(await createDatabase());
  await migrate(pool, logger);
  await pool.query(`update jobcell.migrations set checksum = 'x' where name = '0001_init'`);
  await expect(migrate(pool, logger)).rejects.toMatchObject({ message: expect.stringContaining('0001_init') });
});
