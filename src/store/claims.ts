import { limits } from '../limits.ts';
import type { Queryable } from './database.ts';
import { channel, pendingMessage } from './executions.ts';
import type { Claim } from './steps.ts';
import type { RetryPolicy } from './workflows.ts';

/** An execution as its runner needs it. */
export interface ClaimedExecution extends Claim {
  workflow: string;
  mainJobFunction: string;
  /** Job function name -> pinned version, from the workflow. */
  jobFunctions: Record<string, number>;
  args: string;
  invoker: string | null;
  attempt: number;
  depth: number;
  revision: number;
  replay: 'auto' | 'always';
  takeovers: number;
  /** Secret; chance inside the bodies comes from it (D13). */
  seed: Buffer;
  retryPolicy: RetryPolicy | null;
  retryCount: number;
  /** Whether an earlier claim may have left a journal. */
  hasJournal: boolean;
}

interface ClaimedRow {
  workspace_id: string;
  /** Null in the row that says that others may fit now. */
  id: string | null;
  fence: number;
  workflow: string;
  main_job_function: string;
  job_functions: string;
  args: string;
  invoker: string | null;
  attempt: number;
  depth: number;
  revision: number;
  replay: 'auto' | 'always';
  takeovers: number;
  seed: Buffer;
  retry_policy: string | null;
  retry_count: number;
}

const columns = [
  'workspace_id, id, fence, workflow, main_job_function, job_functions, args, invoker, attempt, depth, revision, replay',
  'takeovers, seed, retry_policy, retry_count',
]
  .flatMap((line) => line.split(', '))
  .map((column) => `(c.claimed).${column}`)
  .join(', ');

/**
 * Takes up to `limit` executions that wait to run under this server's lease (D1): oldest first, whoever fits under all
 * caps (D20), with everything that its stack needs (D18, D19). A claim that was long on its way, and arrives after the
 * lease, takes nothing. With `tick` it also looks at those that have waited too long although others came in (D20).
 * @returns them, and whether it is worth while to ask again at once.
 */
export async function claimExecutions(
  db: Queryable,
  serverId: string,
  limit: number,
  tick = false,
): Promise<{ claimed: ClaimedExecution[]; again: boolean }> {
  const { rows } = await db.query<ClaimedRow>({
    name: 'claim',
    text: `select ${columns} from claim_executions($1, $2, $3, $4 * interval '1 millisecond', $5) c`,
    values: [serverId, limit, tick, limits.starvingMs, limits.starvingTries],
  });
  const claimed = rows.flatMap(({ id, ...row }) => (id === null ? [] : [toClaimed({ id, ...row })]));
  return { claimed, again: claimed.length < rows.length };
}

const toClaimed = (row: ClaimedRow & { id: string }): ClaimedExecution => ({
  workspaceId: row.workspace_id,
  executionId: row.id,
  fence: row.fence,
  workflow: row.workflow,
  mainJobFunction: row.main_job_function,
  jobFunctions: JSON.parse(row.job_functions),
  args: row.args,
  invoker: row.invoker,
  attempt: row.attempt,
  depth: row.depth,
  revision: row.revision,
  replay: row.replay,
  takeovers: row.takeovers,
  seed: row.seed,
  retryPolicy: row.retry_policy === null ? null : JSON.parse(row.retry_policy),
  retryCount: row.retry_count,
  // The first claim ever has fence 1; every later one may find records.
  hasJournal: row.fence > 1,
});

/**
 * Confirms that a run which lost its claim is gone from this server, cells and all: its slots are free, and a resume
 * that waited for that can be claimed (D29).
 */
export async function confirmStopped(db: Queryable, execution: Claim, serverId: string): Promise<void> {
  await db.query(
    `with s as materialized (
       select id from executions
       where workspace_id = $1 and id = $2 and fence = $3 and holder = $4 and status <> 'RUNNING'),
     f as materialized (
       select * from free_slots(array(select $1::uuid from s), array(select id from s), array(select $3::bigint from s))),
     e as (
       update executions e set holder = null, frames = 1, keys = '{}' from f
       where e.workspace_id = f.workspace_id and e.id = f.execution_id returning e.status)
     select pg_notify('${channel}', '${pendingMessage}') from e where status = 'PENDING_RESUME'`,
    [execution.workspaceId, execution.executionId, execution.fence + 1, serverId],
  );
}
