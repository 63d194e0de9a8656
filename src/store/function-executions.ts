import { limits } from '../limits.ts';
import type { BodyType, LogLine, Usage } from '../sandbox/protocol.ts';
import { decodeCursor, isUuid, type Page, type PageRequest, pageOf } from './cursor.ts';
import type { Queryable } from './database.ts';
import { type StoredJson, storedValues, type ValueColumns, valueColumns } from './execution-reads.ts';

/** behaviour.md 3: statuses of a function execution. */
export const functionStatuses = ['RUNNING', 'SUCCESS', 'FAILED', 'CANCELED'] as const;
type FunctionStatus = (typeof functionStatuses)[number];

/** An invocation as it is written: once at its end, and before that as RUNNING when it takes long. */
export interface FunctionRecord {
  workspaceId: string;
  id: string;
  /** Null: a test run. */
  name: string | null;
  version: number | null;
  type: BodyType;
  status: FunctionStatus;
  args: StoredJson;
  result: StoredJson | null;
  /** JSON text. */
  error: string | null;
  usage: Usage | null;
  memoryLimitBytes: number;
  queueMs: number;
  /** So far, while it is RUNNING. */
  runMs: number;
  /** Of `performance.now()`: when it ended, or was looked at. The database's clock makes a time of it (P1). */
  at: number;
  holder: string;
  logs: LogLine[];
}

const columns = {
  workspace_id: 'uuid',
  id: 'uuid',
  name: 'text',
  version: 'int',
  type: 'text',
  status: 'text',
  args: 'text',
  args_size: 'int',
  result: 'text',
  result_size: 'int',
  error: 'text',
  queue_ms: 'float8',
  run_ms: 'float8',
  cpu_ms: 'float8',
  wall_ms: 'float8',
  peak_memory_bytes: 'bigint',
  memory_limit_bytes: 'bigint',
  holder: 'uuid',
  age_ms: 'float8',
} as const;
type Column = keyof typeof columns;

const names = Object.keys(columns) as Column[];
const stored = names.filter((name) => name !== 'age_ms' && name !== 'run_ms');
const logTypes = ['uuid', 'uuid', 'int', 'timestamptz', 'text', 'text', 'text'];
const logNames = 'workspace_id, execution_id, id, at, level, message, attributes';
const unnest = (types: readonly string[], first: number) =>
  `unnest(${types.map((type, index) => `$${first + index}::${type}[]`).join(', ')})`;
const ago = (...parts: string[]) =>
  `jobcell_now() - (${parts.map((part) => `x.${part}`).join(' + ')}) * interval '1 millisecond'`;

/**
 * Rows whose workspace was deleted meanwhile are left out, so that they fail nobody else's. A row that is there already
 * is the same invocation's, RUNNING until now; or a commit is repeated whose answer was lost (D3).
 */
const writeSql = `
with x as (
    select * from ${unnest(Object.values(columns), 1)} as x(${names.join(', ')})),
f as (
    insert into function_executions (${stored.join(', ')}, run_ms, created_at, started_at, finished_at)
    select ${stored.map((name) => `x.${name}`).join(', ')}, case when x.status <> 'RUNNING' then x.run_ms end,
           ${ago('age_ms', 'run_ms', 'queue_ms')}, ${ago('age_ms', 'run_ms')},
           case when x.status <> 'RUNNING' then ${ago('age_ms')} end
    from x join workspaces w on w.id = x.workspace_id
    on conflict (workspace_id, id) do update
      set status = excluded.status, result = excluded.result, result_size = excluded.result_size,
          error = excluded.error, run_ms = excluded.run_ms, cpu_ms = excluded.cpu_ms, wall_ms = excluded.wall_ms,
          peak_memory_bytes = excluded.peak_memory_bytes, finished_at = excluded.finished_at
    returning workspace_id, id)
insert into function_logs (${logNames})
select l.* from ${unnest(logTypes, names.length + 1)} as l(${logNames})
  join f on f.workspace_id = l.workspace_id and f.id = l.execution_id
on conflict do nothing`;

/** Writes any number of invocations, each only once, in one statement. */
export async function writeFunctionExecutions(db: Queryable, records: FunctionRecord[]): Promise<void> {
  const now = performance.now();
  const values: Record<Column, (record: FunctionRecord) => unknown> = {
    workspace_id: (record) => record.workspaceId,
    id: (record) => record.id,
    name: (record) => record.name,
    version: (record) => record.version,
    type: (record) => record.type,
    status: (record) => record.status,
    args: (record) => record.args.text,
    args_size: (record) => record.args.size,
    result: (record) => record.result?.text ?? null,
    result_size: (record) => record.result?.size ?? null,
    error: (record) => record.error,
    queue_ms: (record) => record.queueMs,
    run_ms: (record) => record.runMs,
    cpu_ms: (record) => record.usage?.cpuMs ?? null,
    wall_ms: (record) => record.usage?.wallMs ?? null,
    peak_memory_bytes: (record) => record.usage?.peakMemoryBytes ?? null,
    memory_limit_bytes: (record) => record.memoryLimitBytes,
    holder: (record) => record.holder,
    age_ms: (record) => now - record.at,
  };
  const lines = records.flatMap((record) => record.logs.map((line, index) => ({ record, line, index })));
  await db.query({
    name: 'write-function-executions',
    text: writeSql,
    values: [
      ...names.map((name) => records.map(values[name])),
      lines.map(({ record }) => record.workspaceId),
      lines.map(({ record }) => record.id),
      lines.map(({ index }) => index),
      lines.map(({ line }) => new Date(line.at).toISOString()),
      lines.map(({ line }) => line.level),
      lines.map(({ line }) => line.message),
      lines.map(({ line }) => line.attributes ?? null),
    ],
  });
}

/** A value as a record keeps it: above the size that answers embed, its size alone. */
export function storedJson(text: string): StoredJson {
  const size = Buffer.byteLength(text);
  return { text: size <= limits.embeddedValueBytes ? text : null, size };
}

/** An invocation without its values. `error` is JSON text. */
export interface FunctionExecutionSummary {
  id: string;
  name: string | null;
  version: number | null;
  type: BodyType;
  status: FunctionStatus;
  error: string | null;
  usage: Usage | null;
  /** Null of a job execution, which waits with its whole execution. */
  queueMs: number | null;
  runMs: number | null;
  createdAt: Date;
  startedAt: Date;
  finishedAt: Date | null;
  /** Of a job execution: the step of a workflow's execution that it is. */
  step: { executionId: string; path: string } | null;
}

export interface FunctionExecution extends FunctionExecutionSummary {
  args: StoredJson;
  result: StoredJson | null;
}

interface Row extends Omit<FunctionExecutionSummary, 'usage' | 'step'>, ValueColumns {
  cpuMs: number | null;
  wallMs: number | null;
  peakMemoryBytes: number | null;
  memoryLimitBytes: number;
  executionId: string | null;
  path: string | null;
}

const summaryColumns = `
  id, name, version, type, status, error, queue_ms as "queueMs", run_ms as "runMs", cpu_ms as "cpuMs", wall_ms as "wallMs",
  peak_memory_bytes as "peakMemoryBytes", memory_limit_bytes as "memoryLimitBytes", created_at as "createdAt",
  started_at as "startedAt", finished_at as "finishedAt", null as "executionId", null as path`;

const summary = (row: Row): FunctionExecutionSummary => {
  const { cpuMs, wallMs, peakMemoryBytes, memoryLimitBytes, executionId, path } = row;
  const measured = cpuMs !== null && wallMs !== null && peakMemoryBytes !== null;
  return {
    id: row.id,
    name: row.name,
    version: row.version,
    type: row.type,
    status: row.status,
    error: row.error,
    usage: measured ? { peakMemoryBytes, memoryLimitBytes, cpuMs, wallMs } : null,
    queueMs: row.queueMs,
    runMs: row.runMs,
    createdAt: row.createdAt,
    startedAt: row.startedAt,
    finishedAt: row.finishedAt,
    step: executionId === null || path === null ? null : { executionId, path },
  };
};

export interface FunctionExecutionFilter {
  function?: string | undefined;
  status?: FunctionStatus | undefined;
}

/** Invocations and test runs, newest first. Job executions are listed by their executions. */
export async function listFunctionExecutions(
  db: Queryable,
  workspaceId: string,
  { function: name, status, limit, cursor }: FunctionExecutionFilter & PageRequest,
): Promise<Page<FunctionExecutionSummary>> {
  const { rows } = await db.query<Row>(
    `select ${summaryColumns} from function_executions
     where workspace_id = $1 and ($3::text is null or name = $3) and ($4::text is null or status = $4)
       and ($5::uuid is null or id < $5)
     order by id desc limit $2`,
    [workspaceId, limit + 1, name ?? null, status ?? null, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows.map(summary), limit, (row) => [row.id]);
}

/** A job execution as a function execution: it runs until its step has an end, however often it is suspended. */
const jobExecutionSql = `
  select id, name, function_version as version, 'JOB' as type,
         case when status in ('SUCCESS', 'FAILED', 'CANCELED') then status else 'RUNNING' end as status, error,
         null::float8 as "queueMs", (extract(epoch from finished_at - started_at) * 1000)::float8 as "runMs",
         cpu_ms as "cpuMs", wall_ms as "wallMs", peak_memory_bytes as "peakMemoryBytes",
         memory_limit_bytes as "memoryLimitBytes", started_at as "createdAt", started_at as "startedAt",
         finished_at as "finishedAt", execution_id as "executionId", path, ${valueColumns('args', '$3')},
         ${valueColumns('result', '$3')}
  from journal where workspace_id = $1 and id = $2 and kind = 'job'`;

/** An invocation, a test run or a job execution; its values up to `limits.embeddedValueBytes`. */
export async function getFunctionExecution(
  db: Queryable,
  workspaceId: string,
  id: string,
): Promise<FunctionExecution | null> {
  if (!isUuid(id)) return null;
  const invocation = await db.query<Row>(
    `select ${summaryColumns}, args as "argsText", args_size as "argsSize", result as "resultText",
       result_size as "resultSize"
     from function_executions where workspace_id = $1 and id = $2`,
    [workspaceId, id],
  );
  const row =
    invocation.rows[0] ?? (await db.query<Row>(jobExecutionSql, [workspaceId, id, limits.embeddedValueBytes])).rows[0];
  return row === undefined ? null : { ...summary(row), ...storedValues(row) };
}

/** A log line of a function execution. */
export interface FunctionLogLine {
  id: number;
  at: Date;
  level: string;
  message: string;
  /** JSON text. */
  attributes: string | null;
}

/** Log lines in the order in which they were written; of a job execution, those of its own body in all its runs. */
export async function listFunctionLogs(
  db: Queryable,
  workspaceId: string,
  { id, step }: Pick<FunctionExecutionSummary, 'id' | 'step'>,
  { limit, cursor }: PageRequest,
): Promise<Page<FunctionLogLine>> {
  const table = step === null ? 'function_logs' : 'logs';
  const { rows } = await db.query<FunctionLogLine>(
    `select id, at, level, message, attributes from ${table}
     where workspace_id = $1 and execution_id = $2 and ($4::bigint is null or id > $4)
       ${step === null ? '' : 'and path = $5'}
     order by id limit $3`,
    [
      workspaceId,
      step?.executionId ?? id,
      limit + 1,
      ...decodeCursor(cursor, ['integer']),
      ...(step === null ? [] : [step.path]),
    ],
  );
  return pageOf(rows, limit, (row) => [row.id]);
}

/**
 * Ends the RUNNING rows of servers that are gone: nobody runs those invocations any more. @returns how many.
 */
export async function failOrphanedFunctions(db: Queryable): Promise<number> {
  const { rowCount } = await db.query(
    `update function_executions f
     set status = 'FAILED', finished_at = jobcell_now(),
         error = json_build_object('name', 'Error', 'message', $1::text, 'stack', '', 'kind', 'PLATFORM',
                                   'code', 'UNAVAILABLE', 'at', coalesce(f.name, 'test-run'))::text
     where status = 'RUNNING' and not exists (select from servers s where s.id = f.holder)`,
    ['The server that ran it ended before the function did. A function is not run again by itself.'],
  );
  return rowCount ?? 0;
}
