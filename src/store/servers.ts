import type { Queryable } from './database.ts';
import { channel, pendingMessage } from './executions.ts';
import { stackOfCanceled } from './holdings.ts';

/** Registers a server process under a new lease (D1). */
export async function registerServer(db: Queryable, id: string, leaseMs: number): Promise<void> {
  await db.query(`insert into servers (id, expires_at) values ($1, jobcell_now() + $2 * interval '1 millisecond')`, [
    id,
    leaseMs,
  ]);
}

/** Renews the lease. @returns false when it has been taken away: the server must act as if it had died. */
export async function renewLease(db: Queryable, id: string, leaseMs: number): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'renew-lease',
    text: `update servers set expires_at = jobcell_now() + $2 * interval '1 millisecond' where id = $1`,
    values: [id, leaseMs],
  });
  return rowCount === 1;
}

/** Ends a lease that was given up: the next `takeOverExpired` frees what it holds. */
export async function expireLease(db: Queryable, id: string): Promise<void> {
  await db.query(`update servers set expires_at = jobcell_now() - interval '1 second' where id = $1`, [id]);
}

/** Removes a lease whose claims have been given back. */
export async function removeServer(db: Queryable, id: string): Promise<void> {
  await db.query('delete from servers where id = $1', [id]);
}

/**
 * Frees what servers hold whose lease has run out, or which have no lease any more (a claim that committed while the
 * lease was taken away): their executions wait in PENDING_RESUME with a new fence, so that
 * nothing the old holder still sends is written (D2). Counts takeovers without a new record in between (D24).
 * The lease row goes in the same statement, so that of two servers only one takes over.
 * @returns how many executions were freed.
 */
export async function takeOverExpired(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ freed: number }>(
    `with dead as (
       delete from servers where id in (
         select id from servers where expires_at < jobcell_now() order by id for update skip locked)
       returning id),
     seen as materialized (
       select array_agg(workspace_id) as workspaces, array_agg(id) as ids, array_agg(fence) as fences from executions
       where holder is not null
         and (holder in (select id from dead) or not exists (select 1 from servers where servers.id = holder))),
     -- by its fence: while its lock was waited for, one may have been freed and claimed by a server unknown here
     freed as materialized (select f.* from seen, free_slots(seen.workspaces, seen.ids, seen.fences) f),
     held as materialized (
       select f.workspace_id, f.execution_id as id, (
         select count(*)::int from journal j
         where j.workspace_id = f.workspace_id and j.execution_id = f.execution_id and j.finished_at is not null) as records
       from freed f),
     e as (
       update executions e
       -- a canceled or resumed one only waited for its holder's confirmation (D29)
       set status = case when e.status = 'RUNNING' then 'PENDING_RESUME' else e.status end,
           holder = null, ${stackOfCanceled}, fence = e.fence + 1,
           takeovers = case when held.records > e.takeover_records then 1 else e.takeovers + 1 end,
           takeover_records = held.records
       from held
       where e.workspace_id = held.workspace_id and e.id = held.id
       returning e.workspace_id, e.id),
     j as (
       update journal j set status = 'SUSPEND' from e
       where j.workspace_id = e.workspace_id and j.execution_id = e.id and j.status = 'RUNNING')
     select count(*)::int as freed, case when count(*) > 0 then pg_notify('${channel}', '${pendingMessage}') end from e`,
  );
  return rows[0]!.freed;
}
