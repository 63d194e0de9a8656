import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { PoolClient } from 'pg';
import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import { type Pool, schemaName } from './database.ts';

interface Migration {
  name: string;
  sql: string;
  checksum: string;
}

/** Any number nobody else uses: the session lock that lets one server migrate while the others wait for it. */
const lockKey = 7_203_114_905;

/** PostgreSQL 15, as `server_version_num`. */
const oldestServer = 150_000;

/** Beside this file in src/ and, since the build copies the folder, beside the bundle in dist/. */
const folder = new URL('./migrations/', import.meta.url);

/**
 * Brings the schema up to this build: creates it if missing and applies the numbered .sql files that are not recorded
 * yet, each in a transaction of its own. Forward only. Safe when several servers start at once.
 *
 * @throws JobcellError UNAVAILABLE when the database is too old, when it was migrated by a newer build, or when a file
 * differs from what was applied under its name.
 */
export async function migrate(pool: Pool, logger: Logger): Promise<void> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await requireServerVersion(client);
    await client.query('select pg_advisory_lock($1)', [lockKey]);
    try {
      await applyMissing(client, readMigrations(), logger);
    } finally {
      await client.query('select pg_advisory_unlock($1)', [lockKey]);
    }
  } catch (error) {
    broken = error as Error;
    throw error;
  } finally {
    // A connection in an unknown state is closed, which also frees the lock.
    client.release(broken);
  }
}

function readMigrations(): Migration[] {
  const names = readdirSync(folder).filter((name) => /^\d{4}_\w+\.sql$/.test(name));
  return names.sort().map((name) => {
    const sql = readFileSync(new URL(name, folder), 'utf8');
    return { name: name.slice(0, -'.sql'.length), sql, checksum: createHash('sha256').update(sql).digest('hex') };
  });
}

async function requireServerVersion(client: PoolClient): Promise<void> {
  const { rows } = await client.query<{ number: string; version: string }>(
    `select current_setting('server_version_num') as number, current_setting('server_version') as version`,
  );
  if (Number(rows[0]!.number) >= oldestServer) return;
  throw new JobcellError(
    'UNAVAILABLE',
    `The database is PostgreSQL ${rows[0]!.version}; jobcell needs 15 or newer. Point DATABASE_URL at a newer server.`,
  );
}

async function applyMissing(client: PoolClient, migrations: Migration[], logger: Logger): Promise<void> {
  const applied = await readApplied(client);
  const known = new Set(migrations.map((migration) => migration.name));
  const newer = [...applied.keys()].filter((name) => !known.has(name));
  if (newer.length > 0) {
    throw new JobcellError(
      'UNAVAILABLE',
      `The database holds migrations that this build does not know: ${newer.join(', ')}. ` +
        'It was used by a newer jobcell; start that version or a later one.',
    );
  }
  for (const migration of migrations) {
    const checksum = applied.get(migration.name);
    if (checksum === undefined) {
      await apply(client, migration);
      logger.info({ migration: migration.name }, 'migration applied');
    } else if (checksum !== migration.checksum) {
      throw new JobcellError(
        'UNAVAILABLE',
        `Migration ${migration.name} was applied with another content than this build has. ` +
          'Applied migrations never change: start the build that made this database, or use an empty one.',
      );
    }
  }
}

/** Names and checksums of what is applied. Creates schema and table where missing. */
async function readApplied(client: PoolClient): Promise<Map<string, string>> {
  const { rows: present } = await client.query<{ present: boolean }>('select to_regclass($1) is not null as present', [
    `${schemaName}.migrations`,
  ]);
  if (!present[0]!.present) {
    await client.query(`create schema if not exists ${schemaName}`);
    await client.query(
      `create table if not exists ${schemaName}.migrations (
         name text primary key,
         checksum text not null,
         applied_at timestamptz not null default now()
       )`,
    );
  }
  const { rows } = await client.query<{ name: string; checksum: string }>(
    `select name, checksum from ${schemaName}.migrations order by name`,
  );
  return new Map(rows.map((row) => [row.name, row.checksum]));
}

async function apply(client: PoolClient, { name, sql, checksum }: Migration): Promise<void> {
  await client.query('begin');
  try {
    await client.query(`set local search_path = ${schemaName}`);
    await client.query(sql);
    await client.query(`insert into ${schemaName}.migrations (name, checksum) values ($1, $2)`, [name, checksum]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw new JobcellError('UNAVAILABLE', `Migration ${name} failed: ${(error as Error).message}.`, { cause: error });
  }
}
