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
      `select coalesce(p.workspace_id, h.workspace_id) as workspace, coalesce(p.pool, h.pool) as pool, coalesce(p.used, 0) as used,
              coalesce(h.slots, 0) as held
       from jobcell.pools p full join jobcell.held_slots h on h.workspace_id = p.workspace_id and h.pool = p.pool
       where coalesce(p.used, 0) <> coalesce(h.slots, 0)`,
    );
    return rows;
  } finally {
    await database.end();
  }
}
