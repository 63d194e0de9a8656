import { limits } from '../limits.ts';
import { ClaimLostError } from './claim-lost.ts';
import { type Pool, type Queryable, transaction } from './database.ts';
import type { StoredJson } from './execution-reads.ts';
import { channel, pendingMessage } from './executions.ts';
import { type FinishedCall, isRecorded, recordFinished } from './journal.ts';
import { freedClaim } from './slots.ts';
import { insertLogs, logColumns } from './steps.ts';

/** A `wait` that is about to park its execution. */
export type WaitCall = Omit<FinishedCall, 'kind' | 'status' | 'result' | 'error' | 'executionPolicyKey'>;

const waitSql = `
with ${freedClaim},
e as (
    update executions e set status = 'WAITING', holder = null
    from f where e.workspace_id = f.workspace_id and e.id = f.execution_id
    returning e.workspace_id, e.id),
s as (
    update journal j set status = 'SUSPEND' from e
    where j.workspace_id = e.workspace_id and j.execution_id = e.id and j.status = 'RUNNING'),
l as (${insertLogs(12)})
insert into journal (workspace_id, execution_id, path, parent_path, position, id, kind, name, args, status,
                     recorded_run, clock, started_at)
select e.workspace_id, e.id, $4, $5, $6::int, $7, 'wait', $8, $9, 'WAITING', $10, $11, jobcell_now()
from e
on conflict (workspace_id, execution_id, path) do update set status = 'WAITING'
returning path`;

/**
 * Parks an execution: its `wait` is recorded, and it holds neither a claim nor a slot from then on (E5).
 * @throws ClaimLostError
 */
export async function commitWait(db: Queryable, call: WaitCall): Promise<void> {
  const { rowCount } = await db.query({
    name: 'commit-wait',
    text: waitSql,
    values: [
      call.workspaceId,
      call.executionId,
      call.fence,
      call.path,
      call.parentPath,
      call.position,
      call.id,
      call.name,
      call.args,
      call.recordedRun,
      call.clock,
      ...logColumns(call.logs.map((line) => ({ claim: call, line }))),
    ],
  });
  if (rowCount === 0) throw new ClaimLostError(call.executionId);
}

export interface WaitKey {
  workspaceId: string;
  executionId: string;
  key: string;
}

/** `payload` is JSON text. */
export type WaitState =
  | { type: 'waiting'; path: string; payload: string }
  | { type: 'resolved' }
  | { type: 'not-waiting' };

/** D11: the last `wait` on a key says whether it waits, was resolved, or never was. */
export async function findWait(db: Queryable, wait: WaitKey): Promise<WaitState> {
  const { rows } = await db.query<{ path: string; status: string; args: string }>(
    `select path, status, args from journal
     where workspace_id = $1 and execution_id = $2 and kind = 'wait' and name = $3 order by id desc limit 1`,
    [wait.workspaceId, wait.executionId, wait.key],
  );
  const row = rows[0];
  if (!row) return { type: 'not-waiting' };
  if (row.status === 'WAITING') return { type: 'waiting', path: row.path, payload: row.args };
  return row.status === 'SUCCESS' ? { type: 'resolved' } : { type: 'not-waiting' };
}

/** What an execution waits for, its payload up to the size that an answer embeds; null when nothing. */
export async function currentWait(
  db: Queryable,
  workspaceId: string,
  executionId: string,
): Promise<{ key: string; payload: StoredJson } | null> {
  const { rows } = await db.query<{ key: string; size: number; text: string | null }>(
    `select name as key, octet_length(args) as size, case when octet_length(args) <= $3 then args end as text
     from journal where workspace_id = $1 and execution_id = $2 and kind = 'wait' and status = 'WAITING'`,
    [workspaceId, executionId, limits.embeddedValueBytes],
  );
  const row = rows[0];
  return row ? { key: row.key, payload: { text: row.text, size: row.size } } : null;
}

/**
 * Resolves a wait with a result (JSON text): one caller wins, under the row lock of the waiting execution (D10).
 * @returns what it found: `waiting` means that this call resolved it.
 */
export async function resolveWait(pool: Pool, wait: WaitKey, result: string): Promise<WaitState> {
  return transaction(pool, (db) => resolveIn(db, wait, result));
}

async function resolveIn(db: Queryable, wait: WaitKey, result: string): Promise<WaitState> {
  const { rows } = await db.query<{ status: string }>(
    'select status from executions where workspace_id = $1 and id = $2 for update',
    [wait.workspaceId, wait.executionId],
  );
  const found = await findWait(db, wait);
  if (found.type !== 'waiting') return found;
  await db.query(
    `update journal set status = 'SUCCESS', result = $4, finished_at = jobcell_now()
     where workspace_id = $1 and execution_id = $2 and path = $3`,
    [wait.workspaceId, wait.executionId, found.path, result],
  );
  if (rows[0]?.status === 'WAITING') {
    await db.query(`update executions set status = 'PENDING_RESUME' where workspace_id = $1 and id = $2`, [
      wait.workspaceId,
      wait.executionId,
    ]);
    await db.query(`select pg_notify('${channel}', '${pendingMessage}')`);
  }
  return found;
}

/**
 * Resolves a wait from a script: the effect, and the record of the script's call, in one transaction under the caller's
 * fence (D6). Both executions' rows are locked in id order, as everywhere (D2).
 * @throws ClaimLostError
 */
export async function resolveWaitFromScript(
  pool: Pool,
  wait: WaitKey,
  result: string,
  call: FinishedCall,
): Promise<WaitState> {
  return transaction(pool, async (db) => {
    await db.query(`select from executions where workspace_id = $1 and id = any($2::uuid[]) order by id for update`, [
      wait.workspaceId,
      [wait.executionId, call.executionId],
    ]);
    if (await isRecorded(db, call)) return { type: 'waiting', path: call.path, payload: call.args };
    const found = await resolveIn(db, wait, result);
    if (found.type === 'waiting') await recordFinished(db, call);
    return found;
  });
}
