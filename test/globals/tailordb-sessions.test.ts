import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { openPool } from '../../src/store/database.ts';
import { endOverdueSessions } from '../../src/store/tailordb/sessions.ts';
import type { Problem } from '../support/client.ts';
import { addNamespaced, type Namespaced, namespace, startNamespaced } from './tailordb-harness.ts';

const tables = `create table own (n int generated always as identity, text text)`;
let db: Namespaced;
/** Another workspace on the same server. */
let other: Namespaced;

beforeAll(async () => {
  db = await startNamespaced(tables);
  other = await addNamespaced(db.server, tables);
});

/** What each statement ends with, one after the other on one connection: its command, or its code. */
const outcomes = (...statements: string[]) =>
  db.result(`const outcomes = [];
    for (const sql of ${JSON.stringify(statements)})
      try { outcomes.push((await db.queryObject(sql)).command); } catch (error) { outcomes.push(error.code); }
    return outcomes;`);

/** The namespace works as on its first day, for a script of it and for one of another workspace. */
async function expectUndisturbed(): Promise<void> {
  for (const each of [db, other]) {
    const body = `await db.queryObject("insert into own (text) values ('x')");
      const { rows } = await db.queryObject('select count(*) > 0 as some, current_schema() as schema from own');
      const settings = {};
      for (const name of ['statement_timeout', 'default_transaction_read_only', 'work_mem', 'lock_timeout'])
        settings[name] = (await db.queryObject('select current_setting($1) as value', [name])).rows[0].value;
      return { ...rows[0], ...settings };`;
    expect(await each.result(body)).toEqual({
      some: true,
      schema: 'ns_1',
      statement_timeout: '1min',
      default_transaction_read_only: 'off',
      work_mem: '4MB',
      lock_timeout: '0',
    });
  }
}

async function platform<T extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<T[]> {
  const client = new pg.Client(db.server.databaseUrl);
  await client.connect();
  try {
    return (await client.query<T>(sql, values)).rows;
  } finally {
    await client.end();
  }
}

const databaseOf = async ({ workspace }: Namespaced) =>
  (
    await platform<{ database: string }>(
      `select 'jobcell_' || replace(d.id::text, '-', '') as database from jobcell.tailordb_databases d
       join jobcell.workspaces w on w.id = d.workspace_id where w.name = $1`,
      [workspace.name],
    )
  )[0]!.database;

/** Sessions of the script role. */
const sessions = async () =>
  (await platform('select from pg_stat_activity where usename = $1', [`${await databaseOf(db)}_1_script`])).length;

describe('COPY is refused, and the connection goes on', () => {
  const refused = ['0A000', 'SELECT'];
  test.each([
    'copy own to stdout',
    'copy own from stdin',
    `copy own to program 'id'`,
    `copy own from '/etc/passwd'`,
    `copy (select repeat('x', 1000000) from generate_series(1, 100000)) to stdout`,
    '; ;\n  COPY own TO STDOUT',
    '-- a comment\r/* one /* in */ another */ CoPy own from stdin (format binary)',
    'copy"own"to stdout',
    `do $$ begin execute 'copy own to stdout'; end $$`,
  ])('%s', async (sql) => {
    expect(await outcomes(sql, 'select 1')).toEqual(refused);
  });

  test('with a sentence, and an open transaction is still there', async () => {
    expect(await db.failure('copy own to stdout')).toMatchObject({
      name: 'PostgresError',
      message:
        'COPY is not possible in tailordb.Client, and nothing was done. Write rows with INSERT and read them with SELECT.',
    });
    expect(await outcomes('begin', 'copy own to stdout', 'select 1', 'commit')).toEqual([
      'BEGIN',
      '0A000',
      'SELECT',
      'COMMIT',
    ]);
  });

  test('what only looks like one is not refused', async () => {
    expect(await outcomes('copyright', '/* copy */ select 1', '/* copy', `select 'copy own to stdout'`)).toEqual([
      '42601',
      'SELECT',
      '42601',
      'SELECT',
    ]);
  });

  test('in the SQL of the administrator it has no rows to give or take, and never hangs', async () => {
    const post = (sql: string) => db.client.post<Problem>(`${db.path()}/sql`, { sql });
    expect(await post('copy own to stdout')).toMatchObject({ status: 200 });
    expect(await post('copy own from stdin')).toMatchObject({
      body: { code: 'SQL_ERROR', sqlState: '57014', detail: expect.stringContaining('use INSERT') },
    });
    expect(await post(`copy own to program 'id'`)).toMatchObject({ body: { sqlState: '42501' } });
  });
});

describe('what a session does ends with it', () => {
  test.each([
    'set session authorization default',
    'reset session authorization',
    'discard all',
    'discard plans',
    `set local_preload_libraries = 'x'`,
    `set session_preload_libraries = 'x'`,
    `load 'auto_explain'`,
    `alter system set work_mem = '1GB'`,
    `alter database postgres set work_mem = '1GB'`,
    'prepare transaction $$x$$',
    'create temp table flood as select generate_series(1, 1000)',
    'select * into temp flood from own',
    'listen jobcell; ',
    `notify jobcell, 'x'`,
    'unlisten *',
    `set work_mem = '64MB'`,
    `set search_path = pg_catalog`,
    'set default_transaction_read_only = on',
    'reassign owned by current_user to current_user',
    'select pg_advisory_lock(1), pg_advisory_lock_shared(2)',
    'vacuum full own',
    'reindex table own',
    'lock table own in access exclusive mode',
  ])('%s', async (sql) => {
    await outcomes(sql, 'begin', sql);
    await db.client.post(`${db.path()}/sql`, { sql });
    await expectUndisturbed();
  });

  test('advisory locks of one workspace stop no other', async () => {
    const held = db.result(
      `await db.queryObject('select pg_advisory_lock(1)'); await db.queryObject('select pg_sleep(2)');`,
    );
    expect(await other.result(`return (await db.queryObject('select pg_try_advisory_lock(1) as got')).rows;`)).toEqual([
      { got: true },
    ]);
    await held;
  });
});

describe('what a role does to itself is gone with the next session', () => {
  test.each([
    ['alter role current_user set work_mem = $$64MB$$'],
    ['alter role current_user set default_transaction_read_only = on'],
    ['alter role current_user set lock_timeout = 1'],
    // Would make every later login fail.
    ['alter role current_user set local_preload_libraries = $$nowhere$$'],
    ['alter role current_user in database postgres set work_mem = $$64MB$$'],
    ['alter role current_user password null'],
    [`alter role current_user password 'mine'`],
    ['alter role current_user reset all'],
  ])('%s', async (sql) => {
    expect(await outcomes(sql)).toEqual(['ALTER']);
    await expectUndisturbed();
    await db.migrate(sql);
    await expectUndisturbed();
    await db.migrate('create table t (n int); drop table t');
    const role = `${await databaseOf(db)}_1_script`;
    expect(
      await platform(
        'select setconfig from pg_db_role_setting s join pg_roles r on r.oid = setrole where rolname = $1',
        [role],
      ),
    ).toEqual([{ setconfig: ['temp_file_limit=1GB', 'log_min_messages=fatal', 'log_min_error_statement=panic'] }]);
  });

  test.each([[`alter role current_user password 'mine'`], ['alter role current_user set work_mem = $$64MB$$']])(
    'also while a session keeps the change open (%s), which holds up nobody',
    async (sql) => {
      const held = db.run(
        `await db.queryObject('begin'); await db.queryObject(${JSON.stringify(sql)}); await db.queryObject('select pg_sleep(50)');`,
      );
      await expect.poll(sessions).toBe(1);
      const puts = Promise.all(Array.from({ length: 30 }, () => db.client.put(db.path())));
      expect(await other.result('return (await db.queryObject("select 1 as one")).rows;')).toEqual([{ one: 1 }]);
      expect((await db.client.get('/readyz')).status).toBe(200);
      expect((await puts).map(({ status }) => status)).toEqual(Array(30).fill(200));
      expect((await held).error).toMatchObject({ name: 'PostgresError' });
      await expectUndisturbed();
    },
  );

  test.each(['the SQL of the administrator', 'PUT'])(
    'a DROP OWNED that is kept open does not hold up %s',
    async (what) => {
      const held = db.run(
        `await db.queryObject('begin'); await db.queryObject('drop owned by current_user'); await db.queryObject('select pg_sleep(50)');`,
      );
      await expect.poll(sessions).toBe(1);
      // It has got to its last statement.
      await new Promise((resolve) => setTimeout(resolve, 300));
      if (what === 'PUT') await db.client.expect('PUT', db.path());
      else await db.migrate('create table while_held (n int); drop table while_held');
      expect((await held).error).toMatchObject({ name: 'PostgresError' });
      await expectUndisturbed();
    },
  );

  test('whatever many sessions do at once', async () => {
    const body = `const texts = ["alter role current_user set local_preload_libraries = 'nowhere'", 'alter role current_user password null', 'alter role current_user reset all'];
      for (const sql of texts) try { await db.queryObject(sql); } catch {}
      return 1;`;
    await Promise.allSettled(Array.from({ length: 24 }, () => db.run(body)));
    await expectUndisturbed();
  });

  test('DROP OWNED of a script leaves it its rights, also those on tables to come', async () => {
    expect(await outcomes('drop owned by current_user', 'drop owned by current_user cascade')).toEqual([
      'DROP',
      'DROP',
    ]);
    await expectUndisturbed();
    await db.migrate('create table later (n int)');
    expect(await outcomes('insert into later values (1)')).toEqual(['INSERT']);
  });

  test('DROP OWNED of the administrator drops the tables, and the namespace goes on', async () => {
    await db.migrate('drop owned by current_user');
    expect(await outcomes('select 1', 'select * from own')).toEqual(['SELECT', '42P01']);
    await db.migrate(tables);
    await expectUndisturbed();
  });

  test('the schema belongs to neither of them', async () => {
    for (const sql of [
      'drop schema ns_1 cascade',
      'alter schema ns_1 rename to mine',
      'alter schema ns_1 owner to current_user',
    ]) {
      expect(await outcomes(sql)).toEqual(['42501']);
      expect(await db.client.post(`${db.path()}/sql`, { sql })).toMatchObject({ body: { sqlState: '42501' } });
    }
    await expectUndisturbed();
  });
});

describe('a statement ends with the run that asked for it', () => {
  const endless = `for (const name of ['statement_timeout', 'client_connection_check_interval', 'idle_in_transaction_session_timeout'])
      await db.queryObject('set ' + name + ' = 0');
    const asked = db.queryObject('select pg_sleep(600)').catch(() => {});
    await new Promise((done) => setTimeout(done, 500));`;

  test.each([
    ['returned', 'return 1;'],
    ['threw', `throw new Error('on purpose');`],
    ['was killed', 'const all = []; for (;;) all.push(new Array(100_000).fill(0));'],
  ])('that %s', async (_, end) => {
    await expect(sessions()).resolves.toBe(0);
    const ended = db.run(`${endless} ${end}`, 'STANDARD');
    await expect.poll(sessions).toBe(1);
    await ended;
    await expect.poll(sessions, { timeout: 10_000 }).toBe(0);
  });

  test('that was canceled', async () => {
    await db.workspace.uploadJobFunction(
      'endless',
      `export async function main() { const db = new tailordb.Client({ namespace: '${namespace}' }); await db.connect(); ${endless} await asked; }`,
    );
    await db.workspace.putWorkflow('endless', 'endless');
    const id = await db.workspace.start('endless');
    await expect.poll(sessions).toBe(1);
    await db.workspace.cancel(id);
    expect((await db.workspace.finished(id)).status).toBe('CANCELED');
    await expect.poll(sessions, { timeout: 10_000 }).toBe(0);
  });

  test('or, of a server that was lost, when no server can be waiting for it', async () => {
    const pool = openPool(db.server.databaseUrl, { max: 1, onError: () => {} });
    const running = db.run(`${endless.replace('.catch(() => {})', '')} await asked;`);
    await expect.poll(sessions).toBe(1);
    const times = { statementMs: 600_000, ownerStatementMs: 600_000, idleMs: 600_000 };
    expect(await endOverdueSessions(pool, times)).toBe(0);
    expect(await sessions()).toBe(1);
    await expect.poll(() => endOverdueSessions(pool, { ...times, statementMs: 300 })).toBe(1);
    expect((await running).error).toMatchObject({ name: 'PostgresError' });
    const idle = db.run(`await db.queryObject('begin'); await db.queryObject('select 1');
      await new Promise((done) => setTimeout(done, 1500)); await db.queryObject('select 1');`);
    await expect.poll(() => endOverdueSessions(pool, { ...times, idleMs: 300 })).toBe(1);
    expect((await idle).error).toMatchObject({ name: 'PostgresError' });
    await pool.end();
  });
});
