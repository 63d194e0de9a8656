import { beforeAll, describe, expect, test } from 'vitest';
import { type Invoked, type Namespaced, startNamespaced } from './tailordb-harness.ts';

let db: Namespaced;
const result = (body: string, type?: string) => db.result(body, type);
const failure = (sql: string, args?: string) => db.failure(sql, args);

beforeAll(async () => {
  db = await startNamespaced(`
    create table items (id int generated always as identity primary key, name text unique not null, price numeric(10, 2));
    create table notes (item_id int references items (id), text text)`);
});

describe('queryObject', () => {
  test('inserts, selects, updates and deletes, with rows, command and rowCount', async () => {
    const body = `const answers = [];
      for (const [sql, args] of [
        ["insert into items (name, price) values ($1, $2), ($3, $4) returning id, name", ['a', 1.5, 'b', null]],
        ["select name, price from items where name = any($1) order by name", [['a', 'b']]],
        ["update items set price = $1 where name = 'b'", ['2.25']],
        ["select i.name, n.text from items i left join notes n on n.item_id = i.id where i.name in ('a', 'b') order by i.name"],
        ["delete from items where name in ('a', 'b')"],
        ["select 1 as one where false", []],
      ]) answers.push(await db.queryObject(sql, args));
      await db.end();
      return answers;`;
    expect(await result(body)).toEqual([
      {
        rows: [
          { id: expect.any(Number), name: 'a' },
          { id: expect.any(Number), name: 'b' },
        ],
        command: 'INSERT',
        rowCount: 2,
      },
      {
        rows: [
          { name: 'a', price: '1.50' },
          { name: 'b', price: null },
        ],
        command: 'SELECT',
        rowCount: 2,
      },
      { rows: [], command: 'UPDATE', rowCount: 1 },
      {
        rows: [
          { name: 'a', text: null },
          { name: 'b', text: null },
        ],
        command: 'SELECT',
        rowCount: 2,
      },
      { rows: [], command: 'DELETE', rowCount: 2 },
      { rows: [], command: 'SELECT', rowCount: 0 },
    ]);
  });

  test('values are as JSON can carry them', async () => {
    const columns: [expression: string, value: unknown][] = [
      ['1::int2', 1],
      ['(-2147483648)::int4', -2147483648],
      ['9007199254740991::int8', 9007199254740991],
      ['9007199254740993::int8', '9007199254740993'],
      ['1.50::numeric', '1.50'],
      ['1.5::float8', 1.5],
      ['1e300::float8', 1e300],
      [`'NaN'::float8`, 'NaN'],
      [`'-Infinity'::float4`, '-Infinity'],
      ['true', true],
      ['null::text', null],
      [`''::text`, ''],
      [`E'a"b\\\\c\\n\\u0001é😀'`, 'a"b\\c\n\u0001é😀'],
      [`'2024-01-31 12:00:00.25+02'::timestamptz`, '2024-01-31T10:00:00.25Z'],
      [`'2024-01-31 12:00:00'::timestamp`, '2024-01-31T12:00:00'],
      [`'infinity'::timestamptz`, 'infinity'],
      [`'2024-01-31'::date`, '2024-01-31'],
      [`'12:34'::time`, '12:34:00'],
      [`'1 day 2 hours'::interval`, '1 day 02:00:00'],
      [`'\\x00ff'::bytea`, '\\x00ff'],
      [`'{"a":[1,"é",null]}'::jsonb`, { a: [1, 'é', null] }],
      [`'"text"'::json`, 'text'],
      [`'null'::jsonb`, null],
      ['array[1,null,3]', [1, null, 3]],
      [
        'array[[1,2],[3,4]]',
        [
          [1, 2],
          [3, 4],
        ],
      ],
      [`'{}'::text[]`, []],
      [`array['a','b,c','d"e','f\\g','NULL',null,'','{x}']`, ['a', 'b,c', 'd"e', 'f\\g', 'NULL', null, '', '{x}']],
      [`'[0:1]={7,8}'::int[]`, [7, 8]],
      ['array[9007199254740993::int8, 1]', ['9007199254740993', 1]],
      ['array[true,false]', [true, false]],
      ['array[1.10::numeric]', ['1.10']],
      [`array['{"a":1}'::jsonb]`, [{ a: 1 }]],
      [`array['2024-01-31 12:00:00+00'::timestamptz]`, ['2024-01-31T12:00:00Z']],
      [`'a5a1b8e2-0000-4000-8000-000000000000'::uuid`, 'a5a1b8e2-0000-4000-8000-000000000000'],
    ];
    const sql = `select ${columns.map(([expression], i) => `${expression} as c${i}`).join(', ')}`;
    const rows = (await result(`return (await db.queryObject(${JSON.stringify(sql)})).rows;`)) as Record<
      string,
      unknown
    >[];
    expect(columns.map(([expression], i) => [expression, rows[0]![`c${i}`]])).toEqual(columns);
  });

  test('parameters are what a driver makes of them', async () => {
    const sql =
      'select $1::int as a, $2::text as b, $3::bool as c, $4::timestamptz as d, $5::bytea as e, $6::int[] as f, $7::jsonb as g, $8::text[] as h, $9::int8 as i, $10::text as j, $11::float8 as k';
    const args = `[7, 'x"\\\\\\u00e9😀', true, new Date(0), new Uint8Array([0, 255]), [1, null], { a: ['"'] }, ['a,"b\\\\', null, '', 'NULL'], 12345678901234567890n / 10n, undefined, NaN]`;
    expect(await result(`return (await db.queryObject(${JSON.stringify(sql)}, ${args})).rows[0];`)).toEqual({
      a: 7,
      b: 'x"\\é😀',
      c: true,
      d: '1970-01-01T00:00:00Z',
      e: '\\x00ff',
      f: [1, null],
      g: { a: ['"'] },
      h: ['a,"b\\', null, '', 'NULL'],
      i: '1234567890123456789',
      j: null,
      k: 'NaN',
    });
  });

  test('odd columns: two of one name, __proto__, none at all', async () => {
    const body = `const one = await db.queryObject('select 1 as a, 2 as a, 3 as "__proto__", 4 as "?column?"');
      const none = await db.queryObject('select from generate_series(1, 3)');
      return [Object.entries(one.rows[0]), none];`;
    expect(await result(body)).toEqual([
      [
        ['a', 2],
        ['__proto__', 3],
        ['?column?', 4],
      ],
      { rows: [{}, {}, {}], command: 'SELECT', rowCount: 3 },
    ]);
  });
});

describe('a statement that fails', () => {
  test.each([
    ['selec 1', '[]', { code: '42601', position: '1', message: 'syntax error at or near "selec"' }],
    ['select nothing from items', '[]', { code: '42703', position: '8', message: 'column "nothing" does not exist' }],
    ['select * from missing', '[]', { code: '42P01', message: 'relation "missing" does not exist' }],
    ['select 1; select 2', '[]', { code: '42601', message: expect.stringContaining('multiple commands') }],
    ['select $1::int', `['x']`, { code: '22P02', message: 'invalid input syntax for type integer: "x"' }],
    ['select $1', '[]', { code: '08P01' }],
    ['select 1/0', '[]', { code: '22012', message: 'division by zero' }],
    ['select \0', '[]', { code: '22021' }],
    ['select $1::text', `['\\0']`, { code: '22021' }],
    [`do $$ begin raise exception '%', repeat('x', 100000); end $$`, '[]', { code: 'P0001' }],
  ])('%s %s', async (sql, args, expected) => {
    expect(await failure(sql, args)).toMatchObject({ name: 'PostgresError', ...expected });
  });

  test('has the fields of a violated constraint, and the connection goes on', async () => {
    const body = `await db.queryObject("insert into items (name) values ('unique')");
      let caught;
      try { await db.queryObject("insert into items (name) values ('unique')"); } catch (error) { caught = error; }
      const { code, detail, constraint, table } = caught;
      return [code, detail, constraint, table, (await db.queryObject('select 1 as one')).rows];`;
    expect(await result(body)).toEqual([
      '23505',
      'Key (name)=(unique) already exists.',
      'items_name_key',
      'items',
      [{ one: 1 }],
    ]);
  });

  test('uncaught, tells its code and place in the stack, and nothing of ours', async () => {
    const { error } = await db.run(`await db.queryObject('selec 1');`);
    expect(error).toMatchObject({ name: 'PostgresError', message: 'syntax error at or near "selec"' });
    expect(error!.stack).toMatch(/at async main \(test-run\.js:4:\d+\)/);
    expect(error!.stack).toMatch(/PostgreSQL code 42601 at character 1 of the SQL$/);
    expect(error!.stack).not.toMatch(/jobcell|node_modules|\/src\//);
  });

  test('what is no client, no namespace, no SQL says so', async () => {
    const script = `export const main = async () => {
      const answers = [];
      const db = new tailordb.Client({ namespace: 'main-db' });
      for (const work of [
        () => new tailordb.Client(),
        () => new tailordb.Client({ namespace: 7 }),
        () => new tailordb.Client({ namespace: 'nowhere' }).connect(),
        () => new tailordb.Client({ namespace: 'a/b\\0' }).connect(),
        () => db.queryObject('select 1'),
        () => db.connect().then(() => db.queryObject()),
        () => db.queryObject('select 1', 'x'),
        () => db.queryObject('select $1', [() => 1]),
        () => db.queryObject('select $1', ['x'.repeat(4 * 1024 * 1024)]),
        () => db.end().then(() => db.end()).then(() => db.queryObject('select 1')),
      ]) try { answers.push(await work()); } catch (error) { answers.push([error.name, error.code ?? null, error.message]); }
      return answers;
    };`;
    const answer = await db.client.post<Invoked>(`${db.workspace.path}/functions/test-run`, { script });
    expect(answer.body.result).toEqual([
      ['TypeError', null, 'tailordb.Client: config.namespace must be a string.'],
      ['TypeError', null, 'tailordb.Client: config.namespace must be a string.'],
      ['Error', 'NAMESPACE_NOT_FOUND', expect.stringContaining('no TailorDB namespace "nowhere"')],
      ['Error', 'NAMESPACE_NOT_FOUND', expect.any(String)],
      ['Error', null, 'The client is not connected; call connect() first.'],
      ['TypeError', null, 'queryObject: its first argument must be SQL, a string.'],
      ['TypeError', null, 'queryObject: its second argument must be an array of parameters.'],
      ['TypeError', null, 'queryObject: parameter $1 is a function, which PostgreSQL cannot be given.'],
      ['Error', 'PAYLOAD_TOO_LARGE', expect.stringContaining('4 MiB')],
      ['Error', null, 'The client is not connected; call connect() first.'],
    ]);
  });
});
