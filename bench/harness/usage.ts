/** What a piece of work cost: core time by process, transactions and statements of its database. */
import type { BenchDatabase } from './database.ts';
import { childrenCoreMs, coreMs } from './processes.ts';

export interface Usage {
  /** Core time of the servers, or of a peer's process, ms. */
  server: number;
  /** Core time of their cells, ms. */
  cells: number;
  postgres: number;
  /** Transactions that wrote, of all databases: each is a commit that waits for the disk, alone or with others. */
  transactions: number;
  /** Statements of this one database. */
  statements: number;
}

/** Does the work, of so many steps, and tells what one step cost. `pids` are the servers, or the peer. */
export async function usageOf(
  database: BenchDatabase,
  url: string,
  pids: number[],
  steps: number,
  work: () => Promise<void>,
): Promise<Usage> {
  const before = await read(database, url, pids);
  await work();
  const after = await read(database, url, pids);
  const keys = Object.keys(before) as (keyof Usage)[];
  return Object.fromEntries(keys.map((key) => [key, (after[key] - before[key]) / steps])) as unknown as Usage;
}

async function read(database: BenchDatabase, url: string, pids: number[]): Promise<Usage> {
  const sum = (of: (pid: number) => number) => pids.reduce((total, pid) => total + of(pid), 0);
  const own = { server: sum(coreMs), cells: sum(childrenCoreMs) };
  const postgres = coreMs(database.pid) + childrenCoreMs(database.pid);
  return { ...own, postgres, ...(await counters(database, url)) };
}

/** Both are exact at once; the counters of `pg_stat_database` come up to 10 s late. */
async function counters(database: BenchDatabase, url: string): Promise<Pick<Usage, 'transactions' | 'statements'>> {
  const [row] = await database.query<{ transactions: number; statements: number }>(
    database.url,
    `select pg_snapshot_xmax(pg_current_snapshot())::text::float8 as transactions,
            (select coalesce(sum(s.calls), 0)::float8 from pg_stat_statements s join pg_database d on d.oid = s.dbid
             where d.datname = $1) as statements`,
    [new URL(url).pathname.slice(1)],
  );
  return row!;
}
