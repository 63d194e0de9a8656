import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import { type Namespaced, startNamespaced } from './tailordb-harness.ts';

let db: Namespaced;

beforeAll(async () => {
  db = await startNamespaced();
});

const mib = 1024 * 1024;
/** Answers the size of a result, or how it failed. */
const sizeOf = (sql: string) => `try {
    const { rows } = await db.queryObject(${JSON.stringify(sql)});
    return { rows: rows.length, size: rows.reduce((sum, row) => sum + row.v.length, 0), first: rows[0].v.slice(0, 3), last: rows.at(-1).v.slice(-3) };
  } catch (error) { return { code: error.code, message: error.message }; }`;
const tooLarge = {
  code: '54000',
  message:
    'The result of the query is larger than 128 MB. Read it page by page, or fewer columns of it. ' +
    'The connection was ended with it, and a transaction rolled back.',
};

/** The most resident memory the server's process has had so far, bytes. */
const peakMemory = () =>
  Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${db.server.pid}/status`, 'utf8'))![1]) * 1024;

describe('a result of 128 MB', () => {
  test('is read in a job function, and the server never holds it', { timeout: 180_000 }, async () => {
    const before = peakMemory();
    const sql = `select repeat('x', ${mib}) as v from generate_series(1, 127)`;
    expect(await db.result(sizeOf(sql))).toEqual({ rows: 127, size: 127 * mib, first: 'xxx', last: 'xxx' });
    expect(peakMemory() - before).toBeLessThan(64 * mib);
  });

  test('is read as one value, too', { timeout: 180_000 }, async () => {
    const sql = `select 'ab' || repeat('x', ${120 * mib}) || 'yz' as v`;
    expect(await db.result(sizeOf(sql))).toEqual({ rows: 1, size: 120 * mib + 4, first: 'abx', last: 'xyz' });
  });

  test.each([
    ['many large rows', `select repeat('x', ${mib}) as v from generate_series(1, 129)`],
    ['one value', `select repeat('x', 150000000) as v`],
    ['many small rows', `select 'twenty letters or so' as v from generate_series(1, 6000000)`],
  ])('and more is an error that says so: %s', { timeout: 180_000 }, async (_, sql) => {
    const before = peakMemory();
    expect(await db.result(sizeOf(sql))).toEqual(tooLarge);
    expect(peakMemory() - before).toBeLessThan(64 * mib);
  });

  test('in a function, the memory limit comes first', async () => {
    const answer = await db.run(sizeOf(`select repeat('x', ${mib}) as v from generate_series(1, 100)`), 'STANDARD');
    expect(answer.code).toBe('MEMORY_LIMIT_EXCEEDED');
  });

  test('after one that is too large, the client goes on; a transaction is gone with its connection', {
    timeout: 180_000,
  }, async () => {
    const body = `const codes = [];
      const attempt = async (sql) => { try { codes.push((await db.queryObject(sql)).command); } catch (error) { codes.push(error.code); } };
      const large = "select repeat('x', 150000000)";
      for (const sql of [large, 'select 1', 'begin', large, 'select 1', 'commit', 'select 1', 'begin', large, 'rollback', 'select 1']) await attempt(sql);
      return codes;`;
    expect(await db.result(body)).toEqual([
      ...['54000', 'SELECT'],
      ...['BEGIN', '54000', '25P03', '25P03', 'SELECT'],
      ...['BEGIN', '54000', 'ROLLBACK', 'SELECT'],
    ]);
  });
});

test('values of every length arrive whole, whatever the parts they come in', { timeout: 120_000 }, async () => {
  // Of 1 to 4 bytes of UTF-8 a character, with what JSON escapes among them, so that parts end everywhere.
  const body = `const alphabet = ['a', 'é', '日', '😀', '"', '\\\\', '\\n', '\\u0001'];
    const pattern = Array.from({ length: 211 }, (_, i) => alphabet[(i * i + (i >> 3)) % alphabet.length]).join('');
    const sql = 'select n, repeat($1, n * 37 % 1000) as long, n || $1 as short from generate_series(1, 60) n';
    const { rows, rowCount } = await db.queryObject(sql, [pattern]);
    const wrong = rows.filter(({ n, long, short }, i) => n !== i + 1 || long !== pattern.repeat((n * 37) % 1000) || short !== n + pattern);
    return [rowCount, rows.length, wrong.length];`;
  expect(await db.result(body)).toEqual([60, 60, 0]);
});

test('many rows of many columns', { timeout: 120_000 }, async () => {
  const body = `const { rows } = await db.queryObject(
      "select n, n * 1.5::float8 as f, n % 2 = 0 as even, case when n % 3 = 0 then null else 'row ' || n end as name, array[n, n + 1] as pair, jsonb_build_object('n', n) as doc from generate_series(1, 60000) n");
    const wrong = rows.filter(({ n, f, even, name, pair, doc }, i) => n !== i + 1 || f !== n * 1.5 || even !== (n % 2 === 0)
      || name !== (n % 3 === 0 ? null : 'row ' + n) || pair[1] !== n + 1 || doc.n !== n);
    return [rows.length, wrong.length];`;
  expect(await db.result(body)).toEqual([60_000, 0]);
});

test('messages that no script needs are not held either', { timeout: 120_000 }, async () => {
  const before = peakMemory();
  const body = `const codes = [];
    const attempt = async (sql) => { try { codes.push((await db.queryObject(sql)).command); } catch (error) { codes.push(error.code); } };
    await attempt("do $$ begin raise warning '%', repeat('x', 100000000); end $$");
    await attempt("do $$ begin raise exception '%', repeat('x', 100000000); end $$");
    await attempt("copy (select repeat('x', 100000000) from generate_series(1, 2)) to stdout");
    await attempt('listen a'); await attempt("select pg_notify('a', repeat('x', 7000) || n) from generate_series(1, 1000) n");
    await attempt('select 1');
    return codes;`;
  expect(await db.result(body)).toEqual(['DO', '08006', '0A000', 'LISTEN', 'SELECT', 'SELECT']);
  expect(peakMemory() - before).toBeLessThan(64 * mib);
});

test('a result that a script reads no further waits for nobody else', async () => {
  const body = `const other = new tailordb.Client({ namespace: 'main-db' });
    await other.connect();
    const large = db.queryObject("select repeat('x', 1000000) as v from generate_series(1, 60)");
    const small = await other.queryObject('select 1 as one');
    return [small.rows, (await large).rowCount];`;
  expect(await db.result(body)).toEqual([[{ one: 1 }], 60]);
});

test('a run has so many clients at once', async () => {
  const body = `const clients = Array.from({ length: ${limits.tailordbRunConnections - 1} }, () => new tailordb.Client({ namespace: 'main-db' }));
    await Promise.all(clients.map((client) => client.connect()));
    const late = new tailordb.Client({ namespace: 'main-db' });
    let message;
    try { await late.connect(); } catch (error) { message = error.message; }
    await clients[0].end();
    await late.connect();
    return [message, (await late.queryObject('select 1 as one')).rows];`;
  expect(await db.result(body)).toEqual([
    'This run has 10 TailorDB clients connected, as many as it may; call end() on one of them first.',
    [{ one: 1 }],
  ]);
});
