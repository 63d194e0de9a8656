import type { Queryable } from './database.ts';
import { channel, finalPrefix, stopPrefix } from './executions.ts';

export type CancelOutcome = 'canceled' | 'already-canceled' | 'not-found' | { finished: string };

/**
 * D29: the status and a new claim number commit at once, so that whatever the holder still sends is not written. The
 * holder stays on the row until it confirms that the run is gone, or its lease ends.
 */
export async function cancelExecution(db: Queryable, workspaceId: string, executionId: string): Promise<CancelOutcome> {
  const { rows } = await db.query<{ status: string; canceled: boolean }>(
    `with old as (
       select workspace_id, id, status from executions where workspace_id = $1 and id = $2 for update),
     e as (
       update executions e
       set status = 'CANCELED', fence = e.fence + 1, finished_at = jobcell_now(), retry_after = null,
           blocked_on = null, blocked_since = null, passed = 0
       from old
       where e.workspace_id = old.workspace_id and e.id = old.id
         and old.status not in ('SUCCESS', 'FAILED', 'CANCELED')
       returning e.workspace_id, e.id, e.fence),
     j as (
       update journal j set status = 'CANCELED' from e
       where j.workspace_id = e.workspace_id and j.execution_id = e.id and j.status in ('RUNNING', 'SUSPEND', 'WAITING'))
     select old.status, e.id is not null as canceled,
            case when e.id is not null then pg_notify('${channel}', '${stopPrefix}' || e.id || ':' || e.fence) end,
            case when e.id is not null then pg_notify('${channel}', '${finalPrefix}' || e.id) end
     from old left join e on true`,
    [workspaceId, executionId],
  );
  const row = rows[0];
  if (!row) return 'not-found';
  if (row.canceled) return 'canceled';
  return row.status === 'CANCELED' ? 'already-canceled' : { finished: row.status };
}
