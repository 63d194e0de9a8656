import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createTailordb, type Tailordb } from '../../src/globals/tailordb.ts';
import { TailordbClient } from '../../src/globals/tailordb-client.ts';
import { secretKeys } from '../../src/secret-key.ts';
import { openPool, type Pool } from '../../src/store/database.ts';
import { replayModes } from '../support/fixtures.ts';
import { secretKey } from '../support/server.ts';
import { type Namespaced, namespace, startNamespaced } from './tailordb-harness.ts';

let db: Namespaced;

beforeAll(async () => {
  db = await startNamespaced('create table log (n int generated always as identity, text text)', {
    env: { JOBCELL_TAILORDB_CONNECTIONS: '4' },
  });
});
beforeEach(async () => {
  await db.migrate('truncate log restart identity');
});

const texts = () =>
  db.result(`return (await db.queryObject('select text from log order by n')).rows.map(({ text }) => text);`);
/** The database of the workspace, as the platform's user sees it. */
async function inDatabase<T extends pg.QueryResultRow>(sql: string): Promise<T[]> {
  const platform = new pg.Client(db.server.databaseUrl);
  await platform.connect();
  const { rows } = await platform.query<{ id: string }>(
    'select d.id from jobcell.tailordb_databases d join jobcell.workspaces w on w.id = d.workspace_id where w.name = $1',
    [db.workspace.name],
  );
  await platform.end();
  const url = new URL(db.server.databaseUrl);
  url.pathname = `/jobcell_${rows[0]!.id.replaceAll('-', '')}`;
  const own = new pg.Client(url.href);
  await own.connect();
  try {
    return (await own.query<T>(sql)).rows;
  } finally {
    await own.end();
  }
}
const sessions = async () =>
  (
    await inDatabase<{ count: number }>(
      `select count(*)::int as count from pg_stat_activity where datname = current_database() and usename like '%\\_script'`,
    )
  )[0]!.count;

const client = `const db = new tailordb.Client({ namespace: '${namespace}' }); await db.connect();
  const add = (text) => db.queryObject('insert into log (text) values ($1)', [text]);`;

describe('a transaction', () => {
  test('is committed or rolled back by text; a failed one is rolled back', async () => {
    const body = `const sql = (...texts) => texts.reduce((before, text) => before.then(() => db.queryObject(text)), Promise.resolve());
      await sql('begin', "insert into log (text) values ('kept')", 'commit');
      await sql('begin', "insert into log (text) values ('dropped')", 'rollback');
      const codes = [];
      try { await sql('begin', "insert into log (text) values ('failed')", 'select 1/0'); } catch (error) { codes.push(error.code); }
      try { await sql('select 1'); } catch (error) { codes.push(error.code); }
      codes.push((await db.queryObject('commit')).command);
      await sql('begin isolation level serializable', 'savepoint a', "insert into log (text) values ('undone')", 'rollback to a', 'end');
      return codes;`;
    expect(await db.result(body)).toEqual(['22012', '25P02', 'ROLLBACK']);
    expect(await texts()).toEqual(['kept']);
  });

  test('that is open when its run ends is rolled back, and its connection is gone', async () => {
    await db.result(`await db.queryObject('begin'); await db.queryObject("insert into log (text) values ('open')");`);
    await db.run(
      `await db.queryObject('begin'); await db.queryObject("insert into log (text) values ('open')"); throw new Error('on purpose');`,
    );
    await db.result(`await db.queryObject('begin'); db.queryObject('select pg_sleep(30)'); return 1;`);
    await expect.poll(sessions).toBe(0);
    expect(await texts()).toEqual([]);
  });

  test('of a job function ends with that function, and its parent’s goes on', async () => {
    await db.workspace.uploadJobFunctions({
      'child-tx': `export async function main() { ${client} await db.queryObject('begin'); await add('child'); return 1; }`,
      'parent-tx': `export async function main() {
        ${client}
        await db.queryObject('begin');
        await add('parent');
        tailor.workflow.execJobFunction('child-tx');
        await add('parent again');
        await db.queryObject('commit');
      }`,
    });
    await db.workspace.putWorkflow('parent-tx', 'parent-tx');
    expect(await db.workspace.run('parent-tx')).toMatchObject({ status: 'SUCCESS' });
    expect(await texts()).toEqual(['parent', 'parent again']);
  });

  test.each(replayModes)('that a wait interrupts is rolled back and comes again, replay %s', async (replay) => {
    await db.workspace.uploadJobFunction(
      'waits-tx',
      `export async function main() {
         ${client}
         await db.queryObject('begin');
         await add('once');
         const answer = tailor.workflow.wait('go-on');
         await add('after ' + answer.what);
         await db.queryObject('commit');
         await db.end();
       }`,
    );
    await db.workspace.putWorkflow('waits-tx', 'waits-tx');
    const id = await db.workspace.start('waits-tx', {}, { replay });
    await db.workspace.until(id, ({ status }) => status === 'WAITING');
    await expect.poll(sessions).toBe(0);
    expect(await texts()).toEqual([]);
    await db.workspace.resolve(id, 'go-on', { what: 'the wait' });
    expect(await db.workspace.finished(id)).toMatchObject({ status: 'SUCCESS', error: null });
    expect(await texts()).toEqual(['once', 'after the wait']);
  });

  test('SQL is not recorded: what was committed before a resume is there twice', async () => {
    await db.workspace.uploadJobFunctions({
      'adds-tx': `export async function main({ text }) { ${client} await add(text); }`,
      'fails-tx': `export async function main() {
        ${client}
        await add('in the body');
        tailor.workflow.execJobFunction('adds-tx', { text: 'in a step' });
        if ((await db.queryObject('select count(*) as n from log')).rows[0].n < 3) throw new Error('on purpose');
      }`,
    });
    await db.workspace.putWorkflow('fails-tx', 'fails-tx');
    const failed = await db.workspace.run('fails-tx');
    expect(failed.status).toBe('FAILED');
    expect((await db.workspace.resume(failed.id)).status).toBe('SUCCESS');
    expect(await texts()).toEqual(['in the body', 'in a step', 'in the body']);
  });

  test('of a canceled execution is rolled back, also under a statement', async () => {
    await db.workspace.uploadJobFunction(
      'sleeps-tx',
      `export async function main() { ${client} await db.queryObject('begin'); await add('x'); await db.queryObject('select pg_sleep(50)'); }`,
    );
    await db.workspace.putWorkflow('sleeps-tx', 'sleeps-tx');
    const id = await db.workspace.start('sleeps-tx');
    await expect.poll(sessions).toBe(1);
    expect((await db.workspace.cancel(id)).status).toBe(202);
    await expect.poll(sessions, { timeout: 20_000 }).toBe(0);
  });
});

describe('a client', () => {
  test('runs its statements one after the other, whoever awaits them', async () => {
    const body = `const answers = await Promise.allSettled([
        db.queryObject("insert into log (text) values ('1')"), db.queryObject('select 1/0'), db.queryObject("insert into log (text) values ('2')"), db.end()]);
      return answers.map(({ status }) => status);`;
    expect(await db.result(body)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(await texts()).toEqual(['1', '2']);
  });

  test('waits in line for a connection when all are in use', async () => {
    // Two of the four belong to one workspace at most.
    const holds = Array.from({ length: 6 }, () => db.result(`await db.queryObject('select pg_sleep(0.2)'); return 1;`));
    expect(await Promise.all(holds)).toEqual([1, 1, 1, 1, 1, 1]);
  });
});

describe('times', () => {
  let pool: Pool;
  let tailordb: Tailordb;
  let workspaceId: string;
  const forever = new AbortController();

  beforeAll(async () => {
    const { databaseUrl } = db.server;
    pool = openPool(databaseUrl, { max: 4, onError: () => {} });
    const keys = secretKeys({ secretKeys: [secretKey], databaseUrl, dataDir: '' });
    tailordb = createTailordb({ pool, databaseUrl, keys, connections: 4, logger: pino({ level: 'silent' }) });
    workspaceId = (await db.client.expect<{ id: string }>('GET', db.workspace.path)).id;
  });
  afterAll(async () => {
    forever.abort();
    await tailordb.stop();
    await pool.end();
  });

  async function connected(idleMs: number): Promise<TailordbClient> {
    const times = { statementMs: 500, graceMs: 100, idleMs };
    const made = new TailordbClient(() => tailordb.connect(workspaceId, namespace, forever.signal), times);
    await made.connect();
    return made;
  }
  const run = (made: TailordbClient, sql: string) => made.execute(sql, []);

  test('an idle transaction is rolled back, and the script cannot go on as if it were there', async () => {
    const made = await connected(300);
    await run(made, 'begin');
    await run(made, `insert into log (text) values ('idle')`);
    await expect.poll(sessions).toBe(0);
    const lost = {
      failed: {
        code: '25P03',
        message: 'The transaction is not there any more and was rolled back: nothing was asked of it for 0.3 s.',
      },
    };
    expect(await run(made, 'select 1')).toEqual(lost);
    expect(await run(made, 'rollback to savepoint a')).toEqual(lost);
    expect(await run(made, ' COMMIT')).toEqual(lost);
    expect(await run(made, 'select 1')).toMatchObject({ end: { command: 'SELECT' } });
    made.end();
    expect(await texts()).toEqual([]);
  });

  test('an idle connection ends, and the next statement has another', async () => {
    const made = await connected(300);
    await run(made, 'select 1');
    await expect.poll(sessions).toBe(0);
    expect(await run(made, 'select 1')).toMatchObject({ end: { rowCount: 1 } });
    made.end();
    await expect.poll(sessions).toBe(0);
  });

  test('sessions that fill the notification queue are ended', async () => {
    const { databaseUrl } = db.server;
    const keys = secretKeys({ secretKeys: [secretKey], databaseUrl, dataDir: '' });
    const logger = pino({ level: 'silent' });
    // A megabyte of notifications is a ten-thousandth of what there is room for.
    const queue = { most: 5e-5, lookMs: 100 };
    const watching = createTailordb({ pool, databaseUrl, keys, connections: 4, logger, queue });
    const connect = async () => {
      const made = new TailordbClient(() => watching.connect(workspaceId, namespace, forever.signal));
      await made.connect();
      return made;
    };
    const [listener, sender] = [await connect(), await connect()];
    await run(listener, 'listen a');
    await run(listener, 'begin');
    await run(listener, 'select 1');
    await run(sender, `select pg_notify('a', repeat('x', 7000) || n) from generate_series(1, 200) n`);
    await expect.poll(sessions).toBe(0);
    expect(await run(listener, 'select 1')).toMatchObject({ failed: { code: '25P03' } });
    for (const made of [listener, sender]) made.end();
    await watching.stop();
  });

  test('a statement has a time limit, which a script cannot take away', async () => {
    const made = await connected(60_000);
    await run(made, 'set statement_timeout = 0');
    await run(made, 'begin');
    expect(await run(made, 'select pg_sleep(30)')).toMatchObject({ failed: { code: '08006' } });
    await expect.poll(sessions).toBe(0);
    expect(await run(made, 'select 1')).toMatchObject({ failed: { code: '25P03' } });
    expect(await run(made, 'rollback')).toMatchObject({ end: { command: 'ROLLBACK' } });
    made.end();
  });
});
