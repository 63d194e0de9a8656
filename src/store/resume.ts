import type { Pool, Queryable } from './database.ts';
import { transaction } from './database.ts';
import { channel, pendingMessage } from './executions.ts';
import { type FinishedCall, isRecorded, type JournalRecord, loadJournal, recordFinished } from './journal.ts';
import { keepForUndo } from './resume-undo.ts';

/** What a resume changes, decided from the journal by the caller. */
interface ResumePlan {
  /** Records that run again (D9). */
  again: string[];
  /** Records that are forgotten (D8). */
  forget: string[];
}

export type PlanResume = (records: JournalRecord[], mainPath: string) => ResumePlan;

export interface ResumeRequest {
  workspaceId: string;
  executionId: string;
  code: 'latest' | 'pinned';
}

export type ResumeOutcome =
  | { type: 'resumed' }
  | { type: 'not-found' }
  /** Not in a status that can be resumed. */
  | { type: 'refused'; status: string };

/** Statuses that a resume takes an execution out of (http-api.md). */
const resumable = ['FAILED', 'PENDING_RETRY', 'CANCELED'];

/**
 * Puts an execution back to PENDING_RESUME as a new attempt (D27), under its row lock. `plan` sees the journal as it is
 * under that lock. With `latest` its names resolve at the workspace's newest revision from now on (D28). What it changes
 * is kept until the attempt has ended (D8).
 */
export async function resumeExecution(pool: Pool, execution: ResumeRequest, plan: PlanResume): Promise<ResumeOutcome> {
  return transaction(pool, (db) => resumeIn(db, execution, plan));
}

/**
 * Resumes another execution from a script: the effect, and the record of the script's call, in one transaction under
 * the caller's fence (D6). Both executions' rows are locked in id order, as everywhere (D2).
 * @throws ClaimLostError
 */
export async function resumeFromScript(
  pool: Pool,
  execution: ResumeRequest,
  plan: PlanResume,
  call: FinishedCall,
): Promise<ResumeOutcome> {
  return transaction(pool, async (db) => {
    await db.query('select from executions where workspace_id = $1 and id = any($2::uuid[]) order by id for update', [
      execution.workspaceId,
      [execution.executionId, call.executionId],
    ]);
    if (await isRecorded(db, call)) return { type: 'resumed' };
    const outcome = await resumeIn(db, execution, plan);
    if (outcome.type === 'resumed') await recordFinished(db, call);
    return outcome;
  });
}

async function resumeIn(db: Queryable, execution: ResumeRequest, plan: PlanResume): Promise<ResumeOutcome> {
  const { workspaceId, executionId, code } = execution;
  const { rows } = await db.query<{ status: string; main: string }>(
    `select status, main_job_function as main from executions where workspace_id = $1 and id = $2 for update`,
    [workspaceId, executionId],
  );
  const row = rows[0];
  if (!row) return { type: 'not-found' };
  if (!resumable.includes(row.status)) return { type: 'refused', status: row.status };
  const { records } = await loadJournal(db, { workspaceId, executionId }, 0);
  const { again, forget } = plan(records, row.main);
  await keepForUndo(db, { workspaceId, executionId }, { again, forget });
  await db.query(`delete from journal where workspace_id = $1 and execution_id = $2 and path = any($3)`, [
    workspaceId,
    executionId,
    forget,
  ]);
  await db.query(
    `update journal
     set status = 'SUSPEND', result = null, error = null, finished_at = null,
         function_version = case when $4 then null else function_version end
     where workspace_id = $1 and execution_id = $2 and (path = any($3) or status in ('CANCELED', 'SUSPEND'))`,
    [workspaceId, executionId, again, code === 'latest'],
  );
  await db.query(
    `update executions e
     set status = 'PENDING_RESUME', attempt = e.attempt + 1, retry_count = 0, retry_after = null, error = null,
         result = null, finished_at = null, takeovers = 0,
         revision = case when $3 then w.revision else e.revision end,
         job_functions = case when $3 then '{}' else e.job_functions end
     from workspaces w
     where e.workspace_id = $1 and e.id = $2 and w.id = $1`,
    [workspaceId, executionId, code === 'latest'],
  );
  await db.query(`select pg_notify('${channel}', '${pendingMessage}')`);
  return { type: 'resumed' };
}
