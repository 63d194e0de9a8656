import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';

/**
 * Makes an empty database on the run's PostgreSQL server and answers its connection string. Every test file makes its
 * own, so files run side by side and in any order; all of them go with the run.
 */
export async function createDatabase(): Promise<string> {
  const url = new URL(inject('postgresUrl'));
  const name = `test_${randomBytes(8).toString('hex')}`;
  const client = new pg.Client(url.href);
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  url.pathname = `/${name}`;
  return url.href;
}
