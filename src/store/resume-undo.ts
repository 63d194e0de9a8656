import { type Pool, type Queryable, transaction } from './database.ts';
import type { Claim } from './steps.ts';

/**
 * D8: an attempt that ends in ARGUMENT_MISMATCH leaves everything as it was before the resume that began it. So a resume
 * keeps what it changes, and the end of its attempt, in the same transaction, puts that back or lets it go.
 */

type ExecutionKey = Pick<Claim, 'workspaceId' | 'executionId'>;

/** Keeps what a resume is about to change. Call it under the lock of the execution's row. */
export async function keepForUndo(
  db: Queryable,
  { workspaceId, executionId }: ExecutionKey,
  changed: { again: string[]; forget: string[] },
): Promise<void> {
  // One whose attempt never came to its end was canceled.
  await dropUndo(db, { workspaceId, executionId });
  const paths = [...changed.again, ...changed.forget];
  const touched = `workspace_id = $1 and execution_id = $2 and (path = any($3) or status in ('CANCELED', 'SUSPEND'))`;
  await db.query(
    `insert into resumes (workspace_id, execution_id, revision, job_functions, error, kept_records)
     select workspace_id, id, revision, job_functions, error,
            (select count(*) from journal where workspace_id = $1 and execution_id = $2 and not (${touched}))
     from executions where workspace_id = $1 and id = $2`,
    [workspaceId, executionId, paths],
  );
  await db.query(
    `insert into resume_records (workspace_id, execution_id, path, forgotten, record)
     select workspace_id, execution_id, path, path = any($4), row_to_json(journal) from journal where ${touched}`,
    [workspaceId, executionId, paths, changed.forget],
  );
}

/** The error that an execution had before it was resumed, JSON text; null when it had none, or was not resumed. */
export async function errorBeforeResume(db: Queryable, { workspaceId, executionId }: ExecutionKey) {
  const { rows } = await db.query<{ error: string | null }>(
    'select error from resumes where workspace_id = $1 and execution_id = $2',
    [workspaceId, executionId],
  );
  return rows[0]?.error ?? null;
}

/**
 * Ends an attempt that a resume may have begun. `commit` writes the end under the attempt's fence; it comes first, since
 * it takes the locks in their order, and rejects when the claim is lost. Sent again after a lost answer, nothing is
 * left to undo (D3).
 */
export async function endResumed(
  pool: Pool,
  execution: ExecutionKey,
  outcome: 'undo' | 'stands',
  commit: (db: Queryable) => Promise<void>,
): Promise<void> {
  await transaction(pool, async (db) => {
    await commit(db);
    if (outcome === 'undo') await undo(db, execution);
    await dropUndo(db, execution);
  });
}

/**
 * What was finished in the attempt stays finished, whatever it was before: its body must not start again (E2). What was
 * forgotten comes back only where nothing was finished since: it would stand beside what came in its place. Then the
 * resume stands as a whole.
 */
async function undo(db: Queryable, { workspaceId, executionId }: ExecutionKey): Promise<void> {
  await db.query(
    `with x as (
       select path, forgotten, record from resume_records where workspace_id = $1 and execution_id = $2),
     r as (
       select * from resumes r where workspace_id = $1 and execution_id = $2
         and not (exists (select from x where forgotten)
                  and kept_records < (select count(*) from journal j
                                      where j.workspace_id = $1 and j.execution_id = $2
                                        and j.status in ('SUCCESS', 'FAILED')))),
     -- in the place of what was forgotten: begun, and not finished
     begun as (
       delete from journal j using r
       where j.workspace_id = r.workspace_id and j.execution_id = r.execution_id
         and j.status not in ('SUCCESS', 'FAILED') and exists (select from x where forgotten)
         and j.path not in (select path from x)),
     back as (
       insert into journal as j
       select old.* from r, x, json_populate_record(null::journal, x.record) old
       on conflict (workspace_id, execution_id, path) do update
         set status = excluded.status, result = excluded.result, error = excluded.error,
             function_version = excluded.function_version, failing_position = excluded.failing_position,
             execution_policy_key = excluded.execution_policy_key, cpu_ms = excluded.cpu_ms,
             wall_ms = excluded.wall_ms, peak_memory_bytes = excluded.peak_memory_bytes,
             started_at = excluded.started_at, finished_at = excluded.finished_at,
             runs = greatest(j.runs, excluded.runs)
         where j.status not in ('SUCCESS', 'FAILED'))
     update executions e set revision = r.revision, job_functions = r.job_functions
     from r where e.workspace_id = r.workspace_id and e.id = r.execution_id`,
    [workspaceId, executionId],
  );
}

/** There is nothing to undo any more. */
async function dropUndo(db: Queryable, { workspaceId, executionId }: ExecutionKey): Promise<void> {
  await db.query('delete from resumes where workspace_id = $1 and execution_id = $2', [workspaceId, executionId]);
}
