/** The PostgreSQL of a benchmark: the packaged one with its default durability, for everything that is compared. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../src/store/embedded.ts';
import { parentOf } from './processes.ts';

export interface BenchDatabase {
  /** Holds the database's files; a place for other files of this run. */
  folder: string;
  /** Id of PostgreSQL's first process. */
  pid: number;
  /** Of the database that nothing is measured in. */
  url: string;
  /** Makes an empty database and answers its connection string. */
  create(name: string): Promise<string>;
  /** Runs SQL as the superuser in a database of `create`. */
  query<T extends pg.QueryResultRow>(url: string, text: string, values?: unknown[]): Promise<T[]>;
  stop(): Promise<void>;
}

export async function startDatabase(): Promise<BenchDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'jobcell-bench-'));
  const logger = pino({ level: 'warn' }, pino.destination(2));
  const dataFolder = join(folder, 'database');
  // The library that counts statements is loaded at PostgreSQL's start only, so it is started twice.
  const first = await startEmbeddedPostgres(dataFolder, logger);
  await ask(first.url, `alter system set shared_preload_libraries = 'pg_stat_statements'`);
  await ask(first.url, `alter system set pg_stat_statements.track = 'top'`);
  await first.stop();
  const postgres = await startEmbeddedPostgres(dataFolder, logger);
  await ask(postgres.url, 'create extension pg_stat_statements');
  const [settings] = await ask<{ fsync: string; commit: string }>(
    postgres.url,
    `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit`,
  );
  if (settings?.fsync !== 'on' || settings.commit !== 'on') throw new Error('PostgreSQL does not run durably.');
  const [checkpointer] = await ask<{ pid: number }>(
    postgres.url,
    `select pid from pg_stat_activity where backend_type = 'checkpointer'`,
  );
  return {
    folder,
    pid: parentOf(checkpointer!.pid),
    url: postgres.url,
    create: async (name) => {
      await ask(postgres.url, `create database ${name}`);
      const url = new URL(postgres.url);
      url.pathname = `/${name}`;
      return url.href;
    },
    query: ask,
    stop: async () => {
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function ask<T extends pg.QueryResultRow>(url: string, text: string, values: unknown[] = []): Promise<T[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<T>(text, values)).rows;
  } finally {
    await client.end();
  }
}
