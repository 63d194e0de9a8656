import type { Usage } from '../sandbox/protocol.ts';
import { ClaimLostError } from './claim-lost.ts';
import type { Queryable } from './database.ts';
import { freedClaim } from './slots.ts';
import { type Claim, insertLogs, type LogRow, logColumns } from './steps.ts';

/** What the servers tell each other, by NOTIFY on one channel. */
export const channel = 'jobcell';
/** Payload: an execution may be claimable now. */
export const pendingMessage = 'pending';
/** Payload prefix: the execution whose id follows has reached a final status. */
export const finalPrefix = 'final:';
/** Payload prefix: the execution whose id and new fence follow, `id:fence`, is canceled; its holder ends the run and confirms it (D29). */
export const stopPrefix = 'stop:';

/** What an execution is started with; `args` and `invoker` are JSON texts. */
export interface NewExecution {
  id: string;
  workspaceId: string;
  workflow: string;
  args: string;
  invoker: string | null;
  depth: number;
  parent: { executionId: string; path: string } | null;
  replay: 'auto' | 'always';
  seed: Buffer;
  idempotencyKey: string | null;
}

/** Columns of a new execution, made from the workflow `w` as it is declared now and pinned to the workspace's revision (D28). */
const insertSql = `
with w as (
    select ws.id as workspace_id, ws.revision, wf.name, wf.main_job_function, wf.job_functions, wf.retry_policy
    from workspaces ws join workflows wf on wf.workspace_id = ws.id
    where ws.id = $1 and not ws.deleting and wf.name = $3
    -- against a delete that counts unfinished executions at this moment (D31)
    for key share of ws, wf),
i as (
    insert into executions (workspace_id, id, workflow, main_job_function, job_functions, retry_policy, revision, status,
                            args, invoker, depth, parent_execution_id, parent_path, replay, seed, idempotency_key)
    select w.workspace_id, $2, w.name, w.main_job_function, w.job_functions, w.retry_policy, w.revision, 'PENDING',
           $4, $5, $6, $7, $8, $9, $10, $11
    from w
    on conflict (workspace_id, workflow, idempotency_key) where idempotency_key is not null do nothing
    returning id)
select (select name from w) is not null as workflow_exists, (select id from i) as id,
       case when exists (select 1 from i) then pg_notify('${channel}', '${pendingMessage}') end`;

/**
 * Inserts a PENDING execution and wakes the servers.
 * @returns 'inserted', 'no-workflow', or 'duplicate' when the idempotency key is taken.
 */
export async function insertExecution(
  db: Queryable,
  execution: NewExecution,
): Promise<'inserted' | 'no-workflow' | 'duplicate'> {
  const { rows } = await db.query<{ workflow_exists: boolean; id: string | null }>({
    name: 'insert-execution',
    text: insertSql,
    values: [
      execution.workspaceId,
      execution.id,
      execution.workflow,
      execution.args,
      execution.invoker,
      execution.depth,
      execution.parent?.executionId ?? null,
      execution.parent?.path ?? null,
      execution.replay,
      execution.seed,
      execution.idempotencyKey,
    ],
  });
  const row = rows[0]!;
  if (!row.workflow_exists) return 'no-workflow';
  return row.id === null ? 'duplicate' : 'inserted';
}

/** The execution an idempotency key was first used for. */
export async function findByIdempotencyKey(
  db: Queryable,
  key: { workspaceId: string; workflow: string; idempotencyKey: string },
): Promise<Pick<NewExecution, 'id' | 'args' | 'invoker' | 'replay'> | null> {
  const { rows } = await db.query<Pick<NewExecution, 'id' | 'args' | 'invoker' | 'replay'>>(
    `select id, args, invoker, replay from executions where workspace_id = $1 and workflow = $2 and idempotency_key = $3`,
    [key.workspaceId, key.workflow, key.idempotencyKey],
  );
  return rows[0] ?? null;
}

/** How an execution ends. `result` and `error` are JSON texts; `main` is the end of its main body, where that ran. */
export interface ExecutionEnd extends Claim {
  status: 'SUCCESS' | 'FAILED';
  result: string | null;
  error: string | null;
  main: { path: string; run: number; usage: Usage | null; failingPosition: number | null } | null;
  logs: LogRow[];
}

const finishSql = `
with ${freedClaim},
e as (
    update executions e
    set status = $4, result = $5, error = $6, finished_at = jobcell_now(), holder = null, frames = 1, keys = '{}'
    from f where e.workspace_id = f.workspace_id and e.id = f.execution_id
    returning e.workspace_id, e.id),
j as (
    update journal j
    set status = case when j.path = $7 then $4 else 'SUSPEND' end,
        result = case when j.path = $7 then $5 end, error = case when j.path = $7 then $6 end,
        finished_at = case when j.path = $7 then jobcell_now() end,
        cpu_ms = case when j.path = $7 then $8::float8 end, wall_ms = case when j.path = $7 then $9::float8 end,
        peak_memory_bytes = case when j.path = $7 then $10::bigint end,
        failing_position = case when j.path = $7 then $11::int end
    from e
    where j.workspace_id = e.workspace_id and j.execution_id = e.id and j.status = 'RUNNING'),
l as (${insertLogs(12)})
select id, pg_notify('${channel}', '${finalPrefix}' || id) from e
union all
-- the answer to the first sending was lost: it is done (D3)
select id, null from executions
where workspace_id = $1 and id = $2 and fence = $3 and status = $4 and holder is null`;

/**
 * Commits the end of an execution together with the end of its main body and wakes whoever waits for it. Bodies that
 * were still on the stack become SUSPEND: not finished, to be run again by a resume.
 * @throws ClaimLostError
 */
export async function finishExecution(db: Queryable, end: ExecutionEnd): Promise<void> {
  const { rowCount } = await db.query({
    name: 'finish-execution',
    text: finishSql,
    values: [
      end.workspaceId,
      end.executionId,
      end.fence,
      end.status,
      end.result,
      end.error,
      end.main?.path ?? null,
      end.main?.usage?.cpuMs ?? null,
      end.main?.usage?.wallMs ?? null,
      end.main?.usage?.peakMemoryBytes ?? null,
      end.main?.failingPosition ?? null,
      ...logColumns(end.logs.map((line) => ({ claim: end, line }))),
    ],
  });
  if (rowCount === 0) throw new ClaimLostError(end.executionId);
}

/**
 * Schedules another attempt after a failure (retryPolicy): PENDING_RETRY until its time, `backoffMs` from now. The
 * bodies at `paths` run again then (D9). @throws ClaimLostError
 */
export async function scheduleRetry(
  db: Queryable,
  retry: Claim & { error: string; backoffMs: number; paths: string[]; logs: LogRow[] },
): Promise<void> {
  const { rowCount } = await db.query(
    `with ${freedClaim},
     e as (
       update executions e
       set status = 'PENDING_RETRY', holder = null, error = $4, attempt = attempt + 1, retry_count = retry_count + 1,
           retry_after = jobcell_now() + $5 * interval '1 millisecond', frames = 1, keys = '{}'
       from f where e.workspace_id = f.workspace_id and e.id = f.execution_id
       returning e.workspace_id, e.id),
     j as (
       update journal j set status = 'SUSPEND', result = null, error = null, finished_at = null from e
       where j.workspace_id = e.workspace_id and j.execution_id = e.id and (j.status = 'RUNNING' or j.path = any($6))),
     l as (${insertLogs(7)})
     select id from e`,
    [
      retry.workspaceId,
      retry.executionId,
      retry.fence,
      retry.error,
      retry.backoffMs,
      retry.paths,
      ...logColumns(retry.logs.map((line) => ({ claim: retry, line }))),
    ],
  );
  if (rowCount === 0) throw new ClaimLostError(retry.executionId);
}

/** Whether an execution is in a final status; null when there is no such execution. */
export async function isFinal(db: Queryable, workspaceId: string, executionId: string): Promise<boolean | null> {
  const { rows } = await db.query<{ final: boolean }>({
    name: 'is-final',
    text: `select status in ('SUCCESS', 'FAILED', 'CANCELED') as final from executions where workspace_id = $1 and id = $2`,
    values: [workspaceId, executionId],
  });
  return rows[0]?.final ?? null;
}
