import pg from 'pg';

/** A pool and what executions hold of it, which is not what its counter says. */
interface Mismatch {
  workspace: string;
  pool: string;
  used: number;
  held: number;
}

/** Pools whose counter is not the sum over those who hold slots of it, at one instant. There must never be one (E4, E5). */
export async function poolMismatches(databaseUrl: string): Promise<Mismatch[]> {
  const database = new pg.Client(databaseUrl);
  await database.connect();
  try {
    const { rows } = await database.query<Mismatch>(
      `with holders as (select * from jobcell.executions where holder is not null),
       held as (
         select workspace_id, pool, sum(slots)::int as slots from (
           select workspace_id, 'executions' as pool, 1 as slots from holders
           union all select workspace_id, 'workflow:' || workflow, 1 from holders
           union all select workspace_id, 'workspace', frames from holders
           union all select workspace_id, 'key:' || k, 1 from holders, unnest(keys) k) s
         group by workspace_id, pool)
       select coalesce(p.workspace_id, h.workspace_id) as workspace, coalesce(p.pool, h.pool) as pool, coalesce(p.used, 0) as used,
              coalesce(h.slots, 0) as held
       from jobcell.pools p full join held h on h.workspace_id = p.workspace_id and h.pool = p.pool
       where coalesce(p.used, 0) <> coalesce(h.slots, 0)`,
    );
    return rows;
  } finally {
    await database.end();
  }
}
