import type { Queryable } from './database.ts';
import { channel, pendingMessage } from './executions.ts';

/** An execution that names a server as its holder: it runs there, or has yet to be confirmed as stopped (D29). */
export interface Holding {
  id: string;
  fence: number;
  running: boolean;
}

/** Of `executions e` whose slots are given back: what did not run any more was canceled, and a resume begins with main. */
export const stackOfCanceled = `frames = case when e.status = 'RUNNING' then e.frames else 1 end,
           keys = case when e.status = 'RUNNING' then e.keys else '{}' end`;

/** What the database says a server holds. */
export async function heldBy(db: Queryable, serverId: string): Promise<Holding[]> {
  const { rows } = await db.query<Holding>({
    name: 'held-by',
    text: `select id, fence, status = 'RUNNING' as running from executions where holder = $1`,
    values: [serverId],
  });
  return rows;
}

/**
 * Gives back what a server holds, all of it or only some ids: the executions wait in PENDING_RESUME for any server, under
 * a new fence (D2). Canceled ones lose their holder (D29).
 */
export async function giveBack(db: Queryable, serverId: string, ids: string[] | null): Promise<void> {
  await db.query(
    `with held as materialized (
       select array_agg(workspace_id) as workspaces, array_agg(id) as ids, array_agg(fence) as fences from executions
       where holder = $1 and ($2::uuid[] is null or id = any($2))),
     freed as materialized (select f.* from held, free_slots(held.workspaces, held.ids, held.fences) f),
     e as (
       update executions e
       set status = case when e.status = 'RUNNING' then 'PENDING_RESUME' else e.status end, holder = null,
           ${stackOfCanceled}, fence = e.fence + 1
       from freed f where e.workspace_id = f.workspace_id and e.id = f.execution_id
       returning e.workspace_id, e.id),
     j as (
       update journal j set status = 'SUSPEND' from e
       where j.workspace_id = e.workspace_id and j.execution_id = e.id and j.status = 'RUNNING')
     select case when count(*) > 0 then pg_notify('${channel}', '${pendingMessage}') end from e`,
    [serverId, ids],
  );
}
