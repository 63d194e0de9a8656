import { ClaimLostError } from './claim-lost.ts';
import type { Queryable } from './database.ts';
import { channel, type NewExecution, pendingMessage } from './executions.ts';
import { type Claim, insertLogs, type LogRow, logColumns } from './steps.ts';

/** Kinds of recorded calls (D5). `job` is a body that ran or runs; main is one too. */
export const recordKinds = ['job', 'startWorkflow', 'wait', 'resolve', 'resumeWorkflowExecution'] as const;
export type RecordKind = (typeof recordKinds)[number];

/** The values of a recorded call: JSON texts, as the script or the engine made them. */
export interface RecordValues {
  args: string;
  result: string | null;
  error: string | null;
}

/** A recorded call as the engine knows it. */
export interface JournalRecord {
  path: string;
  parentPath: string;
  position: number;
  kind: RecordKind;
  name: string;
  status: 'RUNNING' | 'SUSPEND' | 'SUCCESS' | 'FAILED' | 'WAITING' | 'CANCELED';
  functionVersion: number | null;
  runs: number;
  /** The caller's run that made the call, and its readings of the clock before it, as a JSON array (D12, D13). */
  recordedRun: number;
  clock: string | null;
  /** Of a body that failed: the position of the call its error came from (D9). */
  failingPosition: number | null;
  /** Bytes of its values. */
  bytes: number;
  /** Null where they are left in the database, to be read when they are needed (S4). */
  values: RecordValues | null;
}

const bytesSql = '(octet_length(args) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0))';

/**
 * Reads the journal of an execution, with the values of its first records up to `keepBytes`, and the number of its last
 * log line. Call it after the claim (D2).
 */
export async function loadJournal(
  db: Queryable,
  claim: Pick<Claim, 'workspaceId' | 'executionId'>,
  keepBytes: number,
): Promise<{ records: JournalRecord[]; lastLogId: number }> {
  const records = await db.query<Omit<JournalRecord, 'values'> & { kept: boolean } & RecordValues>({
    name: 'load-journal',
    text: `
      with j as (
        select *, ${bytesSql} as bytes, sum(${bytesSql}) over (order by id) <= $3 as kept
        from journal where workspace_id = $1 and execution_id = $2)
      select path, parent_path as "parentPath", position, kind, name, status, function_version as "functionVersion", runs,
             recorded_run as "recordedRun", clock, failing_position as "failingPosition", bytes, kept,
             case when kept then args end as args, case when kept then result end as result,
             case when kept then error end as error
      from j`,
    values: [claim.workspaceId, claim.executionId, keepBytes],
  });
  const logs = await db.query<{ last: number }>({
    name: 'last-log',
    text: 'select coalesce(max(id), 0) as last from logs where workspace_id = $1 and execution_id = $2',
    values: [claim.workspaceId, claim.executionId],
  });
  return {
    records: records.rows.map(({ kept, args, result, error, ...record }) => ({
      ...record,
      values: kept ? { args, result, error } : null,
    })),
    lastLogId: logs.rows[0]!.last,
  };
}

/** The values of one record. */
export async function loadValues(
  db: Queryable,
  claim: Pick<Claim, 'workspaceId' | 'executionId'>,
  path: string,
): Promise<RecordValues> {
  const { rows } = await db.query<RecordValues>({
    name: 'load-values',
    text: 'select args, result, error from journal where workspace_id = $1 and execution_id = $2 and path = $3',
    values: [claim.workspaceId, claim.executionId, path],
  });
  const [values] = rows;
  if (!values) throw new ClaimLostError(claim.executionId);
  return values;
}

/** A recorded call that runs no body, or whose body never came to run: it is finished as it is recorded. */
export interface FinishedCall extends Claim {
  path: string;
  parentPath: string;
  position: number;
  id: string;
  kind: RecordKind;
  name: string;
  args: string;
  status: 'SUCCESS' | 'FAILED';
  result: string | null;
  error: string | null;
  executionPolicyKey: string | null;
  recordedRun: number;
  clock: string | null;
  /** What the caller logged before the call (D14). */
  logs: LogRow[];
}

const recordSql = `
    insert into journal (workspace_id, execution_id, path, parent_path, position, id, kind, name, args, status, result,
                         error, execution_policy_key, recorded_run, clock, started_at, finished_at)
    select e.workspace_id, e.id, $4, $5, $6::int, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, jobcell_now(),
           jobcell_now()
    from e
    on conflict (workspace_id, execution_id, path) do update set status = excluded.status, result = excluded.result,
      error = excluded.error, finished_at = excluded.finished_at
    returning path`;

const lockSql = `
    select workspace_id, id from executions
    where workspace_id = $1 and id = $2 and fence = $3 and status = 'RUNNING' for share`;

const recordValues = (call: FinishedCall) => [
  call.workspaceId,
  call.executionId,
  call.fence,
  call.path,
  call.parentPath,
  call.position,
  call.id,
  call.kind,
  call.name,
  call.args,
  call.status,
  call.result,
  call.error,
  call.executionPolicyKey,
  call.recordedRun,
  call.clock,
  ...logColumns(call.logs.map((line) => ({ claim: call, line }))),
];

/** Records a call as finished that has no effect in the database besides its record. @throws ClaimLostError */
export async function recordFinished(db: Queryable, call: FinishedCall): Promise<void> {
  const { rowCount } = await db.query({
    name: 'record-finished',
    text: `with e as materialized (${lockSql}), l as (${insertLogs(17)}) ${recordSql}`,
    values: recordValues(call),
  });
  if (rowCount === 0) throw new ClaimLostError(call.executionId);
}

/**
 * Whether a call stands recorded as it was sent: its transaction was committed and the answer was lost (D3). Its effect
 * is there as well (D6), and must not be tried, and refused, again. Call it under the lock of the call's execution.
 */
export async function isRecorded(db: Queryable, call: FinishedCall): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from journal where workspace_id = $1 and execution_id = $2 and path = $3 and status = $4`,
    [call.workspaceId, call.executionId, call.path, call.status],
  );
  return rowCount === 1;
}

/**
 * Starts an execution from inside another one, and records the call, in one statement (D6): a crash leaves both or
 * neither. Idempotent by the record's path: a repeated call starts nothing.
 * @returns false when there is no such workflow; nothing is recorded then.
 * @throws ClaimLostError
 */
export async function recordStartedExecution(
  db: Queryable,
  call: FinishedCall,
  started: NewExecution,
): Promise<boolean> {
  const { rows } = await db.query<{ claimed: boolean; workflow_exists: boolean }>({
    name: 'record-started-execution',
    text: `
with e as materialized (${lockSql}),
l as (${insertLogs(17)}),
w as (
    select ws.id as workspace_id, ws.revision, wf.name, wf.main_job_function, wf.job_functions, wf.retry_policy
    from workspaces ws join workflows wf on wf.workspace_id = ws.id, e
    where ws.id = $1 and not ws.deleting and wf.name = $9),
j as (
    insert into journal (workspace_id, execution_id, path, parent_path, position, id, kind, name, args, status, result,
                         error, execution_policy_key, recorded_run, clock, started_at, finished_at)
    select w.workspace_id, $2, $4, $5, $6::int, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, jobcell_now(),
           jobcell_now()
    from w
    -- a failed call that a resume makes again (D9); what is finished stays, and starts nothing
    on conflict (workspace_id, execution_id, path) do update set status = excluded.status, result = excluded.result,
      error = null, finished_at = excluded.finished_at
      where journal.status not in ('SUCCESS', 'FAILED')
    returning path),
i as (
    insert into executions (workspace_id, id, workflow, main_job_function, job_functions, retry_policy, revision, status,
                            args, invoker, depth, parent_execution_id, parent_path, replay, seed)
    select w.workspace_id, $26::uuid, w.name, w.main_job_function, w.job_functions, w.retry_policy, w.revision, 'PENDING',
           $10, $27, $28::int, $2, $4, $29, $30::bytea
    from w, j
    returning id)
select exists (select 1 from e) as claimed, exists (select 1 from w) as workflow_exists,
       case when exists (select 1 from i) then pg_notify('${channel}', '${pendingMessage}') end`,
    values: [...recordValues(call), started.id, started.invoker, started.depth, started.replay, started.seed],
  });
  const row = rows[0]!;
  if (!row.claimed) throw new ClaimLostError(call.executionId);
  return row.workflow_exists;
}
