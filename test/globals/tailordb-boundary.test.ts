import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Problem } from '../support/client.ts';
import { createDatabase } from '../support/database.ts';
import { startServer } from '../support/server.ts';
import { addNamespaced, Namespaced, namespace, startNamespaced } from './tailordb-harness.ts';

let db: Namespaced;
/** Another workspace with tables and rows of its own, on the same server. */
let other: Namespaced;

const tables = 'create table own (n int); create table secrets_of_a_tenant (text text)';

beforeAll(async () => {
  db = await startNamespaced(tables);
  other = await addNamespaced(db.server, `${tables}; insert into secrets_of_a_tenant values ('another tenant')`);
  await db.client.expect('PUT', db.path('second-db'));
  await db.migrate('create table hidden (n int)', 'second-db');
});

/** Rows of a query, each as JSON, as a script sees them. */
const rows = async (sql: string) =>
  (await db.result(`return (await db.queryObject(${JSON.stringify(sql)})).rows;`)) as object[];

async function platform<T extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<T[]> {
  const client = new pg.Client(db.server.databaseUrl);
  await client.connect();
  try {
    return (await client.query<T>(sql, values)).rows;
  } finally {
    await client.end();
  }
}

describe('no SQL of a script leaves its namespace', () => {
  test.each([
    // Becoming somebody else
    ['set role jobcell', '42501'],
    ['set session authorization jobcell', '42501'],
    ['grant jobcell to current_user', '42501'],
    ['alter role current_user superuser', '42501'],
    ['alter role current_user createrole', '42501'],
    ['create role mine', '42501'],
    ['grant pg_read_server_files to current_user', '42501'],
    // Files and programs of the machine
    [`copy own to program 'id'`, '42501'],
    [`copy own from program 'echo 1'`, '42501'],
    [`copy own to '/tmp/jobcell-own'`, '42501'],
    [`copy own from '/etc/passwd'`, '42501'],
    [`select pg_read_file('/etc/passwd')`, '42501'],
    [`select pg_read_binary_file('/etc/passwd')`, '42501'],
    [`select pg_ls_dir('.')`, '42501'],
    [`select pg_stat_file('PG_VERSION')`, '42501'],
    [`select lo_import('/etc/passwd')`, '42501'],
    [`select lo_export(1, '/tmp/jobcell-lo')`, '42501'],
    [`load 'auto_explain'`, '42501'],
    // Other servers and databases
    ['create extension dblink', '42501'],
    ['create extension postgres_fdw', '42501'],
    [`create server far foreign data wrapper postgres_fdw`, '42704'],
    [`select * from jobcell.jobcell.executions`, '0A000'],
    ['create subscription s connection $$host=/tmp$$ publication p', '42501'],
    // The server's settings and processes
    [`alter system set work_mem = '1GB'`, '42501'],
    ['select pg_reload_conf()', '42501'],
    ['select pg_rotate_logfile()', '42501'],
    [`set temp_file_limit = '-1'`, '42501'],
    [`set session_preload_libraries = 'x'`, '42501'],
    [`set log_statement = 'none'`, '42501'],
    ['show data_directory', '42501'],
    ['checkpoint', '42501'],
    [`select pg_create_logical_replication_slot('s', 'pgoutput')`, '42501'],
    // What the administrator made
    ['create table mine (n int)', '42501'],
    ['create temp table mine (n int)', '42501'],
    ['create function f() returns int language sql as $$ select 1 $$', '42501'],
    ['create schema mine', '42501'],
    ['create database mine', '42501'],
    ['drop table own', '42501'],
    ['alter table own add column m int', '42501'],
    ['truncate own', '42501'],
    ['create publication p for all tables', '42501'],
    ['create language plperlu', '42501'],
  ])('%s', async (sql, code) => {
    const failed = (await db.failure(sql)) as { code: string; message: string };
    // Where the feature is not even installed PostgreSQL says that first.
    expect([code, '58P01', '0A000', '42704']).toContain(failed.code);
  });

  test('after RESET and DISCARD it is who it was', async () => {
    const body = `const who = async () => (await db.queryObject('select session_user as a, current_user as b')).rows[0];
      const before = await who();
      for (const sql of ['reset role', 'reset session authorization', 'reset all', 'discard all']) await db.queryObject(sql);
      const after = await who();
      return [before.a === before.b, after.a === before.a, after.b === before.b, /^jobcell_[0-9a-f]{32}_1_script$/.test(after.a)];`;
    expect(await db.result(body)).toEqual([true, true, true, true]);
  });

  test('the other namespace of its workspace is closed to it', async () => {
    expect(await rows(`select nspname from pg_namespace where nspname like 'ns%' order by 1`)).toEqual([
      { nspname: 'ns_1' },
      { nspname: 'ns_2' },
    ]);
    expect(await db.failure('select * from ns_2.hidden')).toMatchObject({
      code: '42501',
      message: 'permission denied for schema ns_2',
    });
  });
});

describe('nothing of the platform or of another workspace can be seen', () => {
  test('not in the catalog: tables, functions, schemas', async () => {
    await other.migrate('create function tenant_function() returns int language sql as $$ select 1 $$');
    const names = `select string_agg(distinct x, ',' order by x) as names from (
      select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
      union all select proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where nspname not in ('pg_catalog', 'information_schema')
      union all select nspname from pg_namespace where nspname not like 'pg%' and nspname <> 'information_schema') t (x)`;
    expect(await rows(names)).toEqual([{ names: 'hidden,ns_1,ns_2,own,secrets_of_a_tenant' }]);
    expect(await rows('select * from secrets_of_a_tenant')).toEqual([]);
    expect(await rows(`select count(*) as n from information_schema.tables where table_schema = 'jobcell'`)).toEqual([
      { n: 0 },
    ]);
  });

  test('not what other sessions do', async () => {
    const queries = await rows(
      `select distinct query from pg_stat_activity where usename is distinct from current_user and query <> '<insufficient privilege>' and query <> ''`,
    );
    expect(queries).toEqual([]);
  });

  test('its database lets nobody in but the roles of its namespaces', async () => {
    const [{ acl } = { acl: '' }] = await platform<{ acl: string }>(
      `select datacl::text as acl from pg_database where datname = (
         select 'jobcell_' || replace(d.id::text, '-', '') from jobcell.tailordb_databases d
         join jobcell.workspaces w on w.id = d.workspace_id where w.name = $1)`,
      [db.workspace.name],
    );
    expect(acl).not.toMatch(/[{,]=/);
    expect(acl.match(/_(owner|script)=c\//g)).toHaveLength(4);
  });
});

describe('the engine is not disturbed', () => {
  test('its channel belongs to another database: nothing is heard, and no message arrives', async () => {
    await db.workspace.uploadJobFunction(
      'listens',
      `export const main = async () => { await new Promise((done) => setTimeout(done, 1500)); return 'undisturbed'; };`,
    );
    await db.workspace.putWorkflow('listens', 'listens');
    const id = await db.workspace.start('listens');
    await db.workspace.until(id, ({ status }) => status === 'RUNNING');
    await db.result(`await db.queryObject('listen jobcell');
      for (const payload of ['stop:${id}:999', 'final:${id}', 'pending']) await db.queryObject('select pg_notify($1, $2)', ['jobcell', payload]);`);
    expect(await db.workspace.finished(id)).toMatchObject({
      status: 'SUCCESS',
      result: 'undisturbed',
      jobExecutions: [{ runs: 1 }],
    });
  });

  test('nor are its locks: a server migrates while a script holds every lock it likes', async () => {
    const held = db.result(
      `await db.queryObject('select pg_advisory_lock(7203114905), pg_advisory_lock(7203114905::bigint)');
       await db.queryObject('select pg_sleep(8)');`,
    );
    const second = await startServer({ databaseUrl: db.server.databaseUrl });
    expect((await new Client(second).get('/readyz')).status).toBe(200);
    await second.stop();
    await held;
  });
});

test('a statement that wants more memory than a process may have fails alone', async () => {
  const body = `const codes = [];
    const greedy = 'select array_length(array_agg(repeat(n::text, 100)), 1) from generate_series(1, 10000000) n';
    for (const sql of [greedy, 'select 1']) try { codes.push((await db.queryObject(sql)).command); } catch (error) { codes.push(error.code); }
    return codes;`;
  const [{ started } = { started: '' }] = await platform<{ started: string }>(
    'select pg_postmaster_start_time()::text as started',
  );
  expect(await db.result(body)).toEqual(['53200', 'SELECT']);
  expect(await platform('select pg_postmaster_start_time()::text as started')).toEqual([{ started }]);
});

describe('over HTTP', () => {
  test('a namespace is created once, listed, and deleted with its roles and tables', async () => {
    const path = db.path('short-lived');
    const made = await db.client.put(path);
    expect(made).toMatchObject({ status: 200, body: { name: 'short-lived' } });
    await db.migrate('create table kept (n int); insert into kept values (1)', 'short-lived');
    expect((await db.client.put(path)).body).toEqual(made.body);
    expect((await db.client.get(path)).body).toEqual(made.body);
    const list = await db.client.get<{ items: { name: string }[] }>(`${db.workspace.path}/tailordb`);
    expect(list.body.items.map(({ name }) => name)).toEqual(['short-lived', 'second-db', namespace]);
    // With connections to it, and a session of its script in a transaction.
    const run = db.run(`const held = new tailordb.Client({ namespace: 'short-lived' });
      await held.connect(); await held.queryObject('begin'); await held.queryObject('select * from kept');
      await db.queryObject('select pg_sleep(1.5)');
      try { await held.queryObject('select 1'); } catch (error) { return error.code; }`);
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect((await db.client.delete(path)).status).toBe(204);
    expect((await run).result).toBe('25P03');
    expect((await db.client.delete(path)).status).toBe(404);
    expect((await db.client.get(path)).status).toBe(404);
    const roles = await platform<{ count: number }>(
      `select count(*)::int as count from pg_roles where rolname like '%\\_3\\_%'`,
    );
    expect(roles[0]!.count).toBe(0);
    await db.client.expect('PUT', path);
    expect(await db.client.post<Problem>(`${path}/sql`, { sql: 'select * from kept' })).toMatchObject({
      status: 422,
      body: { code: 'SQL_ERROR', sqlState: '42P01', position: 15 },
    });
    await db.client.expect('DELETE', path);
  });

  test('SQL is for the administrator, all or nothing, and its errors have their place', async () => {
    const { token } = await db.client.expect<{ token: string }>('POST', `${db.workspace.path}/tokens`, {
      body: { name: 'x' },
    });
    const tenant = new Client(db.server, token);
    expect((await tenant.post(`${db.path()}/sql`, { sql: 'select 1' })).status).toBe(404);
    expect((await tenant.put(db.path())).status).toBe(200);
    const answer = await db.client.post(`${db.path()}/sql`, {
      sql: 'create table made (n int); insert into made values (1), (2); select * from made; drop table made',
    });
    expect(answer.body).toEqual({
      results: [
        { command: 'CREATE', rowCount: 0 },
        { command: 'INSERT', rowCount: 2 },
        { command: 'SELECT', rowCount: 2 },
        { command: 'DROP', rowCount: 0 },
      ],
    });
    const broken = await db.client.post<Problem>(`${db.path()}/sql`, { sql: 'create table half (n int); selec 1' });
    expect(broken).toMatchObject({ status: 422, body: { code: 'SQL_ERROR', sqlState: '42601', position: 28 } });
    expect(await db.failure('select * from half')).toMatchObject({ code: '42P01' });
    const open = await db.client.post<Problem>(`${db.path()}/sql`, { sql: 'begin; create table half (n int)' });
    expect(open).toMatchObject({ status: 422, body: { detail: expect.stringContaining('left a transaction open') } });
    expect(await db.client.post<Problem>(`${db.path('nowhere')}/sql`, { sql: 'select 1' })).toMatchObject({
      status: 404,
    });
    for (const sql of ['set role jobcell', `copy own to program 'id'`, 'create schema mine']) {
      expect(await db.client.post<Problem>(`${db.path()}/sql`, { sql })).toMatchObject({ body: { sqlState: '42501' } });
    }
  });

  test('with its workspace go its database and its roles', async () => {
    const gone = await addNamespaced(db.server, 'create table t (n int)');
    await gone.result(`return (await db.queryObject('insert into t values (1)')).rowCount;`);
    const left = async () =>
      (
        await platform<{ count: number }>(
          `select (select count(*) from pg_database where datname like $1 || '%')::int
                + (select count(*) from pg_roles where rolname like $1 || '%')::int as count`,
          [database],
        )
      )[0]!.count;
    const [{ database } = { database: '' }] = await platform<{ database: string }>(
      `select 'jobcell_' || replace(d.id::text, '-', '') as database from jobcell.tailordb_databases d
       join jobcell.workspaces w on w.id = d.workspace_id where w.name = $1`,
      [gone.workspace.name],
    );
    expect(await left()).toBe(3);
    await db.client.expect('DELETE', gone.workspace.path);
    await expect.poll(left, { timeout: 20_000 }).toBe(0);
  });
});

describe('a database user that is no superuser', () => {
  async function serverOf(attributes: string): Promise<Namespaced> {
    const databaseUrl = new URL(await createDatabase());
    const name = databaseUrl.pathname.slice(1);
    const role = `${name}_user`;
    const admin = new pg.Client(databaseUrl.href);
    await admin.connect();
    await admin.query(
      `create role ${role} login password 'p' ${attributes}; grant create on database ${name} to ${role}`,
    );
    await admin.end();
    databaseUrl.searchParams.set('user', role);
    databaseUrl.searchParams.set('password', 'p');
    const server = await startServer({ databaseUrl: databaseUrl.href });
    return new Namespaced(server, await new Client(server).createWorkspace());
  }

  test('may be enough: with CREATEROLE and CREATEDB everything works', async () => {
    const plain = await serverOf('createrole createdb');
    await plain.client.expect('PUT', plain.path());
    await plain.client.expect('PUT', plain.path());
    await plain.migrate('create table t (n int generated always as identity, s text)');
    expect(
      await plain.result(`return (await db.queryObject("insert into t (s) values ('x') returning *")).rows;`),
    ).toEqual([{ n: 1, s: 'x' }]);
    await plain.result(`db.queryObject('select pg_sleep(30)'); return 1;`);
    expect((await plain.client.delete(plain.path())).status).toBe(204);
    await plain.client.expect('DELETE', plain.workspace.path);
  });

  test('is told what it lacks, and how to get it', async () => {
    const poor = await serverOf('createdb');
    const answer = await poor.client.put<Problem>(poor.path());
    expect(answer).toMatchObject({ status: 503, body: { code: 'DATABASE_PERMISSION' } });
    expect(answer.body.detail).toMatch(/lacks CREATEROLE, which .* alter role "test_\w+" createrole createdb;$/);
  });
});
