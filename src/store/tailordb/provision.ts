import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import pg from 'pg';
import { JobcellError } from '../../errors.ts';
import type { Pool, Queryable } from '../database.ts';
import type { Namespace } from './names.ts';
import type { OrphanedDatabase } from './namespaces.ts';
import { resetRoleSettings } from './role-settings.ts';
import { endSessions } from './sessions.ts';

/** Passwords of a namespace's two roles. */
export interface NamespacePasswords {
  owner: string;
  script: string;
}

export interface ProvisionOptions {
  /** Connections of the platform's user to the platform's database, which wait for a lock only so long (55P03). */
  pool: Pool;
  databaseUrl: string;
  /** Connections that all scripts of a workspace may have, over all servers. */
  connections: number;
  /** How long a statement in the workspace's database waits for a lock, ms. */
  lockMs: number;
}

/** What the server is asked about its own user and version. */
interface Rights {
  user: string;
  superuser: boolean;
  createRole: boolean;
  createDatabase: boolean;
  version: number;
}

/** PostgreSQL 16, since which membership has options. */
const membershipOptions = 160_000;

/**
 * Makes, or mends, what a namespace stands on: the workspace's database, the schema in it, and two login roles that can do
 * nothing but use that schema. Each step may have been done before, here or by another server at this moment.
 *
 * A database for each workspace, and not only a schema, because much of PostgreSQL does not end at schemas: the catalog
 * shows every table, function and comment of a database to everybody, and NOTIFY channels and advisory locks are a
 * database's. So neither the platform nor another tenant can be seen or disturbed.
 *
 * @throws JobcellError DATABASE_PERMISSION when the platform's user may not do it.
 */
export async function provisionNamespace(
  options: ProvisionOptions,
  namespace: Namespace,
  passwords: NamespacePasswords,
): Promise<void> {
  const { pool } = options;
  const rights = await readRights(pool);
  requireRights(rights);
  const { database, schema, ownerRole, scriptRole } = namespace;
  await putRole(pool, rights, ownerRole, passwords.owner);
  await putRole(pool, rights, scriptRole, passwords.script);
  await createIfMissing(pool, `create database ${database} template template0 encoding 'UTF8'`);
  for (const role of [ownerRole, scriptRole]) await resetRoleSettings(pool, role);
  await pool.query(`alter database ${database} connection limit ${options.connections}`);
  await pool.query(`revoke all on database ${database} from public`);
  await pool.query(`grant connect on database ${database} to ${ownerRole}, ${scriptRole}`);
  await inDatabase(options, database, async (db) => {
    await db.query('drop schema if exists public');
    await createIfMissing(db, `create schema ${schema}`);
    await db.query(`grant usage, create on schema ${schema} to ${ownerRole}`);
    await db.query(`grant usage on schema ${schema} to ${scriptRole}`);
    await db.query(defaultPrivileges(namespace));
  });
}

/**
 * SQL that gives the script role its rights on what the owner makes from now on. Either of them can take that back (DROP
 * OWNED BY current_user), so it is said again before the owner makes something.
 */
export function defaultPrivileges({ schema, ownerRole, scriptRole }: Namespace): string {
  const defaults = `alter default privileges for role ${ownerRole} in schema ${schema}`;
  return `${defaults} grant select, insert, update, delete on tables to ${scriptRole};
    ${defaults} grant usage, select, update on sequences to ${scriptRole}`;
}

/** Gives a role the password that it should have; it may have given itself another one. */
export async function resetPassword(db: Queryable, role: string, password: string): Promise<void> {
  await db.query(`alter role ${role} password '${scramVerifier(password)}'`);
}

/** Drops a namespace's schema with everything in it, and its roles; nothing is left of them. */
export async function dropNamespace(options: ProvisionOptions, namespace: Namespace): Promise<void> {
  const { pool } = options;
  const { database, schema, ownerRole, scriptRole } = namespace;
  const { rows } = await pool.query<{ rolname: string }>('select rolname from pg_roles where rolname = any($1)', [
    [ownerRole, scriptRole],
  ]);
  const roles = rows.map(({ rolname }) => rolname);
  for (const role of roles) await pool.query(`alter role ${role} nologin`);
  await endSessions(pool, roles);
  if (await databaseExists(pool, database)) {
    await inDatabase(options, database, async (db) => {
      await db.query(`drop schema if exists ${schema} cascade`);
      // Large objects, default privileges, and rights on the database.
      if (roles.length > 0) await db.query(`drop owned by ${roles.join(', ')}`);
    });
  }
  if (roles.length > 0) await pool.query(`drop role if exists ${roles.join(', ')}`);
}

/** Drops the database of a workspace that is gone, and the roles of its namespaces. */
export async function dropDatabase(pool: Pool, { database, rolePrefix }: OrphanedDatabase): Promise<void> {
  await pool.query(`drop database if exists ${database} with (force)`);
  const { rows } = await pool.query<{ rolname: string }>(
    `select rolname from pg_roles where starts_with(rolname, $1)`,
    [rolePrefix],
  );
  for (const { rolname } of rows) await pool.query(`drop role if exists ${rolname}`);
}

async function databaseExists(db: Queryable, database: string): Promise<boolean> {
  const { rowCount } = await db.query('select from pg_database where datname = $1', [database]);
  return rowCount === 1;
}

async function readRights(db: Queryable): Promise<Rights> {
  const { rows } = await db.query<Rights>(
    `select rolname as user, rolsuper as superuser, rolcreaterole as "createRole", rolcreatedb as "createDatabase",
            current_setting('server_version_num')::int as version
     from pg_roles where rolname = current_user`,
  );
  return rows[0]!;
}

function requireRights({ user, superuser, createRole, createDatabase }: Rights): void {
  if (superuser || (createRole && createDatabase)) return;
  const missing = [...(createRole ? [] : ['CREATEROLE']), ...(createDatabase ? [] : ['CREATEDB'])];
  throw new JobcellError(
    'DATABASE_PERMISSION',
    `The server's database user ${JSON.stringify(user)} lacks ${missing.join(' and ')}, which TailorDB namespaces need: ` +
      `each has login roles of its own, in a database of its workspace. Let a superuser run: ` +
      `alter role ${pg.escapeIdentifier(user)} createrole createdb;`,
  );
}

async function putRole(db: Queryable, rights: Rights, role: string, password: string): Promise<void> {
  await createIfMissing(db, `create role ${role}`);
  await db.query(`alter role ${role} login`);
  await resetPassword(db, role, password);
  if (rights.superuser) return;
  // So that the platform may end the role's sessions and say what rights its tables begin with.
  const membership = rights.version >= membershipOptions ? ' with inherit true, set false' : '';
  await db.query(`grant ${role} to current_user${membership}`);
}

/** Already there (42710 a role, 42P04 a database, 42P06 a schema), or made by somebody else at this moment (23505). */
const thereAlready = new Set(['42710', '42P04', '42P06', '23505']);

async function createIfMissing(db: Queryable, statement: string): Promise<void> {
  try {
    await db.query(statement);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && thereAlready.has(error.code ?? ''))) throw error;
  }
}

/** As the platform's user, in a workspace's database. */
async function inDatabase(
  { databaseUrl, lockMs }: ProvisionOptions,
  database: string,
  work: (db: Queryable) => Promise<void>,
): Promise<void> {
  const url = new URL(databaseUrl);
  url.pathname = `/${database}`;
  const client = new pg.Client({
    connectionString: url.href,
    application_name: 'jobcell',
    connectionTimeoutMillis: 10_000,
    lock_timeout: lockMs,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** RFC 5802, as PostgreSQL stores it: what the database has to know of a password. Then no log of its statements has one. */
function scramVerifier(password: string): string {
  const iterations = 4_096;
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256');
  const keyed = (text: string) => createHmac('sha256', salted).update(text).digest();
  const stored = createHash('sha256').update(keyed('Client Key')).digest('base64');
  const serverKey = keyed('Server Key').toString('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${stored}:${serverKey}`;
}
