import { build } from 'esbuild';
import { beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import { type Namespaced, startNamespaced } from './tailordb-harness.ts';

let db: Namespaced;

beforeAll(async () => {
  db = await startNamespaced(`
    create table customers (id uuid primary key default gen_random_uuid(), name text not null unique);
    create table orders (
      id int generated always as identity primary key,
      customer_id uuid not null references customers (id),
      status text not null default 'open',
      total numeric(12, 2) not null,
      tags text[] not null default '{}',
      details jsonb,
      created_at timestamptz not null default now());
  `);
  await db.workspace.uploadJobFunctions({ shop: await bundled(shop), audit: 'export const main = (args) => args;' });
  await db.workspace.putWorkflow('shop', 'shop');
});

/** One file, as people's bundlers make it of a job function and what it imports. */
async function bundled(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: packageRoot, loader: 'ts' },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    target: 'es2022',
    sourcemap: 'inline',
    write: false,
  });
  return outputFiles[0]!.text;
}

const shop = `
  import { type ColumnType, type Generated, Kysely, sql } from 'kysely';
  import { TailordbDialect } from '@tailor-platform/function-kysely-tailordb';

  interface Database {
    customers: { id: Generated<string>; name: string };
    orders: {
      id: Generated<number>; customer_id: string; status: Generated<string>; total: ColumnType<string, number | string>;
      tags: Generated<string[]>; details: unknown; created_at: Generated<string>;
    };
  }

  async function main({ prefix }: { prefix: string }) {
    const db = new Kysely<Database>({ dialect: new TailordbDialect(new tailordb.Client({ namespace: 'main-db' })) });
    const ada = await db.insertInto('customers').values({ name: prefix + 'Ada' }).returningAll().executeTakeFirstOrThrow();
    const bob = await db.insertInto('customers').values({ name: prefix + 'Bob' }).returning('id').executeTakeFirstOrThrow();
    await db.insertInto('orders').values([
      { customer_id: ada.id, total: 10.5, tags: ['a', 'b,c'], details: { gift: true, lines: [1, 2] } },
      { customer_id: ada.id, total: '20.25', tags: [], details: null },
      { customer_id: bob.id, total: 5, tags: ['x'], details: null },
    ]).execute();

    // A job function between two statements: the connection stays, and so does the transaction around it.
    const paid = await db.transaction().execute(async (trx) => {
      const { numUpdatedRows } = await trx.updateTable('orders').set({ status: 'paid' }).where('customer_id', '=', ada.id).executeTakeFirstOrThrow();
      const audited = tailor.workflow.execJobFunction('audit', { updated: Number(numUpdatedRows) });
      return audited.updated;
    });
    const rolledBack = await db.transaction().execute(async (trx) => {
      await trx.deleteFrom('orders').where('customer_id', '=', bob.id).execute();
      throw new Error('changed my mind');
    }).catch((error) => error.message);

    const joined = await db.selectFrom('customers')
      .innerJoin('orders', 'orders.customer_id', 'customers.id')
      .where('customers.name', 'like', prefix + '%')
      .select(['customers.name', 'orders.status', 'orders.total', 'orders.tags', 'orders.details'])
      .orderBy('orders.id').execute();
    const sums = await db.selectFrom('orders').leftJoin('customers', 'customers.id', 'orders.customer_id')
      .where('customers.name', 'like', prefix + '%')
      .select((eb) => ['customers.name', eb.fn.countAll<number>().as('orders'), eb.fn.sum<string>('orders.total').as('total')])
      .groupBy('customers.name').having((eb) => eb.fn.countAll(), '>', 1).execute();
    const { rows: [recent] } = await sql<{ recent: boolean }>\`select every(created_at > now() - interval '1 hour') as recent from orders\`.execute(db);
    let violation;
    try { await db.insertInto('customers').values({ name: prefix + 'Ada' }).execute(); } catch (error) { violation = error.code; }
    await db.destroy();
    return { paid, rolledBack, joined, sums, recent: recent.recent, violation };
  }
  export { main };
`;

test('a bundle of Kysely on TailorDB runs as it is', async () => {
  const prefix = 'shop-';
  const execution = await db.workspace.run('shop', { prefix });
  expect(execution.error).toBeNull();
  expect(execution.result).toEqual({
    paid: 2,
    rolledBack: 'changed my mind',
    joined: [
      {
        name: `${prefix}Ada`,
        status: 'paid',
        total: '10.50',
        tags: ['a', 'b,c'],
        details: { gift: true, lines: [1, 2] },
      },
      { name: `${prefix}Ada`, status: 'paid', total: '20.25', tags: [], details: null },
      { name: `${prefix}Bob`, status: 'open', total: '5.00', tags: ['x'], details: null },
    ],
    sums: [{ name: `${prefix}Ada`, orders: 2, total: '30.75' }],
    recent: true,
    violation: '23505',
  });
});
