import type { Queryable } from './database.ts';

/** Slots of one pool. */
interface PoolSlots {
  /** `workspace`, `executions`, `workflow:NAME`, or an execution policy key. */
  pool: string;
  slots: number;
}

/** Why an execution that could go on does not. */
export interface Blocked {
  /** The first pool that lacks room; null when all have it. */
  pool: string | null;
  kind: 'executions' | 'workflow' | 'workspace' | 'key' | null;
  /** The policy whose cap it is; null for the platform's and a workflow's own. */
  policy: string | null;
  cap: number | null;
  inUse: number | null;
  /** Executions that hold slots of it, oldest first. */
  holders: string[];
  /** Its place among those that want a slot of it, from 1 (D20). */
  position: number | null;
  need: PoolSlots[];
  /** A server has yet to confirm that its last run is gone (D29). */
  stopping: boolean;
}

/** Those who wait, and those who hold, with the slots of each: `$1` is the workspace. */
const slotsSql = `
  waiting as (
    select id, workflow, frames, keys, holder from executions
    where workspace_id = $1
      and (status in ('PENDING', 'PENDING_RESUME') or (status = 'PENDING_RETRY' and retry_after <= jobcell_now()))),
  wanted as (select w.id, s.pool, s.slots from waiting w, unnest(slots_of($1, w.workflow, w.frames, w.keys)) s),
  held as (
    select e.id, s.pool from executions e, unnest(slots_of($1, e.workflow, e.frames, e.keys)) s
    where e.workspace_id = $1 and e.holder is not null)`;

const shownPool = (column: string) => `regexp_replace(${column}, '^key:', '')`;

/** Why an execution waits that is PENDING, PENDING_RESUME, or due for a retry; null when it is none of these (any more). */
export async function whyBlocked(db: Queryable, workspaceId: string, executionId: string): Promise<Blocked | null> {
  const { rows } = await db.query<Blocked>(
    `with ${slotsSql},
     own as (
       select s.pool, s.slots, s.place, w.holder is not null as stopping
       from waiting w, unnest(slots_of($1, w.workflow, w.frames, w.keys)) with ordinality s (workspace_id, pool, slots, place)
       where w.id = $2),
     lacking as (
       select p.pool, p.cap, p.used from own o join pools p on p.workspace_id = $1 and p.pool = o.pool
       where p.used + o.slots
         -- What is kept for an execution that was passed over is room for nobody else (D20).
         + case when p.earmark <> $2 and p.earmark_until > jobcell_now() then p.earmark_slots else 0 end > p.cap
       order by o.place limit 1)
     select ${shownPool('l.pool')} as pool, split_part(l.pool, ':', 1) as kind, l.cap, l.used as "inUse",
            (select name from execution_policies e
             where e.workspace_id = $1 and starts_with(l.pool, 'key:') and e.cap = l.cap
               and ('key:' || e.key = l.pool or (e.match_type = 'prefix' and starts_with(l.pool, 'key:' || e.key)))
             order by name limit 1) as policy,
            coalesce((select array_agg(h.id order by h.id) from held h where h.pool = l.pool), '{}') as holders,
            (select count(*)::int from wanted w where w.pool = l.pool and w.id <= $2) as position,
            (select json_agg(json_build_object('pool', ${shownPool('o.pool')}, 'slots', o.slots) order by o.place) from own o) as need,
            (select bool_or(o.stopping) from own o) as stopping
     from (select 1) one left join lacking l on true
     where exists (select from own)`,
    [workspaceId, executionId],
  );
  const row = rows[0];
  if (!row) return null;
  return row.pool === null ? { ...row, position: null } : row;
}

/** Counts anew what executions hold, where a counter says otherwise. @returns the counters that were wrong: never any. */
export async function recountPools(db: Queryable): Promise<{ pool: string; used: number; held: number }[]> {
  const { rows } = await db.query<{ pool: string; used: number; held: number }>('select * from recount_pools()');
  return rows;
}

/** A pool as it is now. */
export interface LivePool {
  pool: string;
  /** The policy that gives the pool; null for the platform's and a workflow's. */
  policy: string | null;
  cap: number;
  inUse: number;
  holders: string[];
  /** Executions that want a slot of it for which it lacks room. */
  queued: number;
}

/**
 * The workspace's own pools, and those of workflows and policies that somebody holds or waits for; a key that several
 * policies cover has a pool of each (D16).
 */
export async function livePools(db: Queryable, workspaceId: string): Promise<LivePool[]> {
  const { rows } = await db.query<LivePool>(
    `with ${slotsSql},
     -- Counted once, and not for each pool anew: thousands may wait.
     counted as materialized (
       select w.pool, w.slots, w.id = p.earmark as kept_for, count(*) as executions
       from wanted w join pools p on p.workspace_id = $1 and p.pool = w.pool group by 1, 2, 3),
     all_pools as (
       select p.*, null as policy, p.cap as own_cap from pools p
       where p.workspace_id = $1 and p.pool not like 'key:%'
       union all
       select p.*, e.name, e.cap from pools p join execution_policies e on e.workspace_id = p.workspace_id
         and ('key:' || e.key = p.pool or (e.match_type = 'prefix' and starts_with(p.pool, 'key:' || e.key)))
       where p.workspace_id = $1 and p.pool like 'key:%')
     select ${shownPool('p.pool')} as pool, p.policy, p.own_cap as cap, p.used as "inUse",
            coalesce(h.holders, '{}') as holders, coalesce(q.queued, 0) as queued
     from all_pools p
       left join (select pool, array_agg(id order by id) as holders from held group by pool) h on h.pool = p.pool
       left join lateral (
         select sum(c.executions)::int as queued from counted c
         where c.pool = p.pool
           and p.used + c.slots + case when not c.kept_for and p.earmark_until > jobcell_now() then p.earmark_slots else 0 end > p.own_cap) q on true
     where p.pool in ('workspace', 'executions') or p.used > 0 or q.queued > 0
     order by p.pool not in ('workspace', 'executions'), p.pool, p.policy`,
    [workspaceId],
  );
  return rows;
}
