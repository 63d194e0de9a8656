import { setTimeout as sleep } from 'node:timers/promises';
import type { Queryable } from './database.ts';
import { channel, stopPrefix } from './executions.ts';

/** What retention would remove from a workspace, or has removed. */
export interface RetentionReport {
  executions: number;
  functionExecutions: number;
  oldestFinishedAt: Date | null;
  newestFinishedAt: Date | null;
}

/** Rows of one statement of `removeAllExpired`. */
const requestBatch = 200;

/** For the servers to notice a delete by force and to end functions that are too young for a row, ms; they look every second. */
const noticeMs = 3_000;

/** An execution that nobody holds, in a final status, finished longer ago than its workspace keeps it. */
const due = `
  e.status in ('SUCCESS', 'FAILED', 'CANCELED') and e.holder is null
  and e.finished_at < jobcell_now() - w.retention_days * interval '1 day'`;

/** What would go now. */
export async function countExpired(db: Queryable, workspaceId: string): Promise<RetentionReport> {
  const { rows } = await db.query<RetentionReport>(
    `select count(*)::int as executions, min(e.finished_at) as "oldestFinishedAt", max(e.finished_at) as "newestFinishedAt",
            (select count(*)::int from function_executions f join workspaces w on w.id = f.workspace_id
             where f.workspace_id = $1 and f.status <> 'RUNNING'
               and f.finished_at < jobcell_now() - w.retention_days * interval '1 day') as "functionExecutions"
     from executions e join workspaces w on w.id = e.workspace_id where e.workspace_id = $1 and ${due}`,
    [workspaceId],
  );
  return rows[0]!;
}

/**
 * Removes up to `limit` expired executions, of one workspace or of all, with their journal, logs and idempotency keys.
 * Their status is checked again under the row lock (D32): what a resume takes up at this moment stays.
 * @returns how many went.
 */
export async function removeExpired(db: Queryable, limit: number, workspaceId: string | null): Promise<number> {
  const { rowCount } = await db.query(
    `with gone as (
       select e.workspace_id, e.id from executions e join workspaces w on w.id = e.workspace_id
       where ($2::uuid is null or e.workspace_id = $2) and ${due}
       order by e.finished_at limit $1 for update of e skip locked)
     delete from executions e using gone where e.workspace_id = gone.workspace_id and e.id = gone.id`,
    [limit, workspaceId],
  );
  return rowCount ?? 0;
}

/** Removes up to `limit` expired function executions, with their logs. @returns how many went. */
export async function removeExpiredFunctions(
  db: Queryable,
  limit: number,
  workspaceId: string | null,
): Promise<number> {
  const { rowCount } = await db.query(
    `with gone as (
       select f.workspace_id, f.id from function_executions f join workspaces w on w.id = f.workspace_id
       where ($2::uuid is null or f.workspace_id = $2) and f.status <> 'RUNNING'
         and f.finished_at < jobcell_now() - w.retention_days * interval '1 day'
       order by f.id limit $1 for update of f skip locked)
     delete from function_executions f using gone where f.workspace_id = gone.workspace_id and f.id = gone.id`,
    [limit, workspaceId],
  );
  return rowCount ?? 0;
}

/**
 * Removes up to `limit` pools of keys that nobody holds or waits for: whoever uses the key next makes its row anew.
 * @returns how many went.
 */
export async function removeIdlePools(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `with idle as materialized (
       select workspace_id, pool from pools where pool like 'key:%' and used = 0 and not awaited limit $1),
     locked as materialized (select lock_pools(array(select workspace_id from idle)))
     delete from pools p using idle, locked
     where p.workspace_id = idle.workspace_id and p.pool = idle.pool and p.used = 0 and not p.awaited
       and (p.earmark is null or p.earmark_until <= jobcell_now())`,
    [limit],
  );
  return rowCount ?? 0;
}

/** Removes all expired executions of a workspace and of its functions, batch by batch. */
export async function removeAllExpired(db: Queryable, workspaceId: string): Promise<void> {
  while ((await removeExpired(db, requestBatch, workspaceId)) > 0);
  while ((await removeExpiredFunctions(db, requestBatch, workspaceId)) > 0);
}

/**
 * Removes script versions that no kept execution can reach (D32): not current, not pinned by a workflow or an execution,
 * and not what their name stood for at any kept execution's revision (D28). What a resume may be undone to counts as
 * kept (D8). Executions are read only in workspaces that have an old version at all, and there once.
 * @returns how many went.
 */
export async function removeUnreachableVersions(db: Queryable): Promise<number> {
  const { rowCount } = await db.query(
    `with spans as materialized (
       select workspace_id, type, name, version, revision,
              lead(revision) over (partition by workspace_id, type, name order by revision) as until
       from script_revisions),
     old as materialized (
       select v.workspace_id, v.type, v.name, v.version from script_versions v
       -- a version that is being uploaded has no revision yet for a moment
       where v.created_at < jobcell_now() - interval '1 hour'
         and not exists (select from spans s where (s.workspace_id, s.type, s.name, s.version)
                                                 = (v.workspace_id, v.type, v.name, v.version) and s.until is null)),
     kept as materialized (
       select workspace_id, revision, job_functions, bool_or(status <> 'SUCCESS') as unfinished from executions
       where workspace_id in (select workspace_id from old) group by workspace_id, revision, job_functions
       union all select workspace_id, revision, job_functions, true from resumes),
     pinned as materialized (
       select p.workspace_id, 'JOB' as type, j.key as name, j.value::int as version
       from (select workspace_id, job_functions from workflows union select workspace_id, job_functions from kept) p,
            json_each_text(p.job_functions::json) j)
     delete from script_versions v using old
     where (v.workspace_id, v.type, v.name, v.version) = (old.workspace_id, old.type, old.name, old.version)
       and not exists (
         select from spans s join kept k on k.workspace_id = s.workspace_id
         where (s.workspace_id, s.type, s.name, s.version) = (old.workspace_id, old.type, old.name, old.version)
           and ((k.revision >= s.revision and k.revision < s.until)
                -- a name that came after its revision: the run may have recorded any version since then (E7)
                or (k.unfinished and k.revision < s.revision)))
       and not exists (select from pinned p where (p.workspace_id, p.type, p.name, p.version)
                                                = (old.workspace_id, old.type, old.name, old.version))`,
  );
  return rowCount ?? 0;
}

/** Cancels what is unfinished in workspaces that are being deleted, also what was started at the last moment. */
async function cancelInDeletedWorkspaces(db: Queryable): Promise<void> {
  await db.query(
    `with due as (
       select e.workspace_id, e.id from executions e join workspaces w on w.id = e.workspace_id
       where w.deleting and e.status not in ('SUCCESS', 'FAILED', 'CANCELED')
       order by e.workspace_id, e.id for update of e),
     c as (
       update executions e
       set status = 'CANCELED', fence = e.fence + 1, finished_at = jobcell_now(), retry_after = null,
           blocked_on = null
       from due where e.workspace_id = due.workspace_id and e.id = due.id
       returning e.id, e.fence)
     select pg_notify('${channel}', '${stopPrefix}' || id || ':' || fence) from c`,
  );
}

/**
 * Removes a batch of rows of workspaces that are being deleted, and those workspaces themselves that have no execution
 * left. What a server still runs waits for its end: an execution for its confirmation, a function for its record.
 * @returns how many rows went, and whether such a workspace is left.
 */
export async function removeDeletedWorkspaces(
  db: Queryable,
  limit: number,
): Promise<{ removed: number; left: boolean }> {
  await cancelInDeletedWorkspaces(db);
  const executions = await db.query(
    `with gone as (
       select e.workspace_id, e.id from executions e join workspaces w on w.id = e.workspace_id
       where w.deleting and e.holder is null limit $1 for update of e skip locked)
     delete from executions e using gone where e.workspace_id = gone.workspace_id and e.id = gone.id`,
    [limit],
  );
  const functions = await db.query(
    `with gone as (
       select f.workspace_id, f.id from function_executions f join workspaces w on w.id = f.workspace_id
       where w.deleting and f.status <> 'RUNNING' limit $1 for update of f skip locked)
     delete from function_executions f using gone where f.workspace_id = gone.workspace_id and f.id = gone.id`,
    [limit],
  );
  const workspaces = await db.query(
    `delete from workspaces w
     where w.deleting and (not w.deleting_by_force or w.updated_at < jobcell_now() - $1 * interval '1 millisecond')
       and not exists (select from executions e where e.workspace_id = w.id)
       and not exists (select from function_executions f where f.workspace_id = w.id)`,
    [noticeMs],
  );
  const left = await db.query('select from workspaces where deleting limit 1');
  const removed = [executions, functions, workspaces].reduce((sum, { rowCount }) => sum + (rowCount ?? 0), 0);
  return { removed, left: left.rowCount === 1 };
}

/**
 * Removes what is left of workspaces that are being deleted, batch by batch, until one of them is gone.
 * @returns whether it went within `ms`.
 */
export async function removeDeletedWorkspace(db: Queryable, workspaceId: string, ms: number): Promise<boolean> {
  const deadline = performance.now() + ms;
  while (performance.now() < deadline) {
    const { removed } = await removeDeletedWorkspaces(db, requestBatch);
    const { rowCount } = await db.query('select from workspaces where id = $1', [workspaceId]);
    if (rowCount === 0) return true;
    if (removed === 0) await sleep(50);
  }
  return false;
}
