import { limits } from '../limits.ts';
import { decodeCursor, isUuid, type Page, type PageRequest, pageOf } from './cursor.ts';
import type { Queryable } from './database.ts';
import type { RecordKind } from './journal.ts';

/** Statuses of an execution (behaviour.md 3) that still change by themselves or by somebody's hand ... */
export const unfinishedStatuses = ['PENDING', 'RUNNING', 'PENDING_RESUME', 'PENDING_RETRY', 'WAITING'] as const;
/** ... and those that are final. */
const finalStatuses = ['SUCCESS', 'FAILED', 'CANCELED'] as const;
export const executionStatuses = [...unfinishedStatuses, ...finalStatuses] as const;
type ExecutionStatus = (typeof executionStatuses)[number];

export const callStatuses = ['RUNNING', 'SUSPEND', 'SUCCESS', 'FAILED', 'WAITING', 'CANCELED'] as const;
type CallStatus = (typeof callStatuses)[number];

/** JSON text as a script made it (D33); `text` is null where the value is above the size that was asked for. */
export interface StoredJson {
  text: string | null;
  /** Bytes of the text in UTF-8. */
  size: number;
}

/** An execution without its values and steps. `error` is JSON text. */
export interface ExecutionSummary {
  id: string;
  workflow: string;
  status: ExecutionStatus;
  error: string | null;
  attempt: number;
  depth: number;
  parent: { executionId: string; path: string } | null;
  revision: number;
  retryCount: number;
  retryAfter: Date | null;
  createdAt: Date;
  startedAt: Date | null;
  finishedAt: Date | null;
}

export interface Execution extends ExecutionSummary {
  args: StoredJson;
  result: StoredJson | null;
  /** Paths of the bodies that run right now, outermost first. */
  stack: string[];
}

/** A row of the journal: one recorded call. `error` is JSON text. */
export interface RecordedCall {
  id: string;
  path: string;
  parentPath: string;
  position: number;
  kind: RecordKind;
  name: string;
  status: CallStatus;
  args: StoredJson;
  result: StoredJson | null;
  error: string | null;
  executionPolicyKey: string | null;
  functionVersion: number | null;
  runs: number;
  startedAt: Date;
  finishedAt: Date | null;
  usage: { peakMemoryBytes: number; memoryLimitBytes: number; cpuMs: number; wallMs: number } | null;
}

export interface StoredLogLine {
  id: number;
  at: Date;
  level: string;
  message: string;
  /** JSON text. */
  attributes: string | null;
  path: string;
  run: number;
}

/** A JSON column as two: its size, and its text up to `parameter` bytes, so that a large value never leaves the database. */
export const valueColumns = (column: string, parameter: string) => `
  octet_length(${column}) as "${column}Size", case when octet_length(${column}) <= ${parameter} then ${column} end as "${column}Text"`;

export interface ValueColumns {
  argsSize: number;
  argsText: string | null;
  resultSize: number | null;
  resultText: string | null;
}

export const storedValues = (row: ValueColumns): { args: StoredJson; result: StoredJson | null } => ({
  args: { text: row.argsText, size: row.argsSize },
  result: row.resultSize === null ? null : { text: row.resultText, size: row.resultSize },
});

const summaryColumns = `
  id, workflow, status, error, attempt, depth, parent_execution_id as "parentId", parent_path as "parentPath", revision,
  retry_count as "retryCount", retry_after as "retryAfter", created_at as "createdAt", started_at as "startedAt",
  finished_at as "finishedAt"`;

type SummaryRow = Omit<ExecutionSummary, 'parent'> & { parentId: string | null; parentPath: string | null };

const summary = (row: SummaryRow): ExecutionSummary => ({
  id: row.id,
  workflow: row.workflow,
  status: row.status,
  error: row.error,
  attempt: row.attempt,
  depth: row.depth,
  parent: row.parentId === null ? null : { executionId: row.parentId, path: row.parentPath ?? '' },
  revision: row.revision,
  retryCount: row.retryCount,
  retryAfter: row.retryAfter,
  createdAt: row.createdAt,
  startedAt: row.startedAt,
  finishedAt: row.finishedAt,
});

export interface ExecutionFilter {
  workflow?: string | undefined;
  status?: ExecutionStatus | undefined;
}

/** Newest first. */
export async function listExecutions(
  db: Queryable,
  workspaceId: string,
  { workflow, status, limit, cursor }: ExecutionFilter & PageRequest,
): Promise<Page<ExecutionSummary>> {
  const { rows } = await db.query<SummaryRow>(
    `select ${summaryColumns} from executions
     where workspace_id = $1 and ($3::text is null or workflow = $3) and ($4::text is null or status = $4)
       and ($5::uuid is null or id < $5)
     order by id desc limit $2`,
    [workspaceId, limit + 1, workflow ?? null, status ?? null, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows.map(summary), limit, (row) => [row.id]);
}

export async function executionExists(db: Queryable, workspaceId: string, id: string): Promise<boolean> {
  if (!isUuid(id)) return false;
  const { rowCount } = await db.query('select from executions where workspace_id = $1 and id = $2', [workspaceId, id]);
  return rowCount === 1;
}

/** An execution with its stack; its values up to `limits.embeddedValueBytes`. */
export async function getExecution(db: Queryable, workspaceId: string, id: string): Promise<Execution | null> {
  if (!isUuid(id)) return null;
  const { rows } = await db.query<SummaryRow & ValueColumns & { stack: string[] | null }>(
    `select ${summaryColumns}, ${valueColumns('args', '$3')}, ${valueColumns('result', '$3')},
       -- the stack is the running bodies: each lies one slash deeper than the one that called it
       case when status = 'RUNNING' then
         (select array_agg(j.path order by length(j.path) - length(replace(j.path, '/', ''))) from journal j
          where j.workspace_id = $1 and j.execution_id = $2 and j.kind = 'job' and j.status = 'RUNNING') end as stack
     from executions where workspace_id = $1 and id = $2`,
    [workspaceId, id, limits.embeddedValueBytes],
  );
  const row = rows[0];
  return row === undefined ? null : { ...summary(row), ...storedValues(row), stack: row.stack ?? [] };
}

const callColumns = (valueBytes: string) => `
  id, path, parent_path as "parentPath", position, kind, name, status, ${valueColumns('args', valueBytes)},
  ${valueColumns('result', valueBytes)}, error, execution_policy_key as "executionPolicyKey",
  function_version as "functionVersion", runs, started_at as "startedAt", finished_at as "finishedAt",
  peak_memory_bytes as "peakMemoryBytes", memory_limit_bytes as "memoryLimitBytes", cpu_ms as "cpuMs", wall_ms as "wallMs"`;

type CallRow = Omit<RecordedCall, 'args' | 'result' | 'usage'> &
  ValueColumns & {
    peakMemoryBytes: number | null;
    memoryLimitBytes: number | null;
    cpuMs: number | null;
    wallMs: number | null;
  };

const recordedCall = (row: CallRow): RecordedCall => ({
  id: row.id,
  path: row.path,
  parentPath: row.parentPath,
  position: row.position,
  kind: row.kind,
  name: row.name,
  status: row.status,
  ...storedValues(row),
  error: row.error,
  executionPolicyKey: row.executionPolicyKey,
  functionVersion: row.functionVersion,
  runs: row.runs,
  startedAt: row.startedAt,
  finishedAt: row.finishedAt,
  usage: usage(row),
});

/** A body that has not ended has used nothing that is known yet. */
function usage({ peakMemoryBytes, memoryLimitBytes, cpuMs, wallMs }: CallRow): RecordedCall['usage'] {
  if (peakMemoryBytes === null || memoryLimitBytes === null || cpuMs === null || wallMs === null) return null;
  return { peakMemoryBytes, memoryLimitBytes, cpuMs, wallMs };
}

/**
 * The recorded calls of an execution, in the order in which they were made (their ids are UUIDv7, given at the call);
 * with `kind`, only those. Values up to `limits.embeddedValueBytes`.
 */
export async function listCalls(
  db: Queryable,
  workspaceId: string,
  executionId: string,
  { kind, limit, cursor }: { kind?: RecordKind } & PageRequest,
): Promise<Page<RecordedCall>> {
  const { rows } = await db.query<CallRow>(
    `select ${callColumns('$5')} from journal
     where workspace_id = $1 and execution_id = $2 and ($4::text is null or kind = $4)
       and ($6::uuid is null or id > $6)
     order by id limit $3`,
    [workspaceId, executionId, limit + 1, kind ?? null, limits.embeddedValueBytes, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows.map(recordedCall), limit, (row) => [row.id]);
}

/** One job execution, its values in full. */
export async function getJobExecution(
  db: Queryable,
  workspaceId: string,
  executionId: string,
  id: string,
): Promise<RecordedCall | null> {
  if (!isUuid(executionId) || !isUuid(id)) return null;
  const { rows } = await db.query<CallRow>(
    `select ${callColumns('2147483647')} from journal
     where workspace_id = $1 and execution_id = $2 and id = $3 and kind = 'job'`,
    [workspaceId, executionId, id],
  );
  return rows[0] === undefined ? null : recordedCall(rows[0]);
}

/** Log lines in the order in which they were written. */
export async function listLogs(
  db: Queryable,
  workspaceId: string,
  executionId: string,
  { limit, cursor }: PageRequest,
): Promise<Page<StoredLogLine>> {
  const { rows } = await db.query<StoredLogLine>(
    `select id, at, level, message, attributes, path, run from logs
     where workspace_id = $1 and execution_id = $2 and ($4::bigint is null or id > $4)
     order by id limit $3`,
    [workspaceId, executionId, limit + 1, ...decodeCursor(cursor, ['integer'])],
  );
  return pageOf(rows, limit, (row) => [row.id]);
}
