import type { LogLevel, Usage } from '../sandbox/protocol.ts';
import type { Queryable } from './database.ts';

/**
 * The two writes of the step path. Both take any number of entries of any number of executions, so that everything
 * that waits goes into one commit (step-path.md, Server).
 *
 * They change what the stacks of executions hold (D17), in functions of 0006_slots.sql, which lock the pools, and then the
 * execution rows they write for, and keep only those whose claim still stands: the fence (D2). What is not returned was
 * written by a holder that has lost its claim.
 * Both are idempotent by (execution, path, run), so a commit whose answer was lost is simply sent again (D3).
 */

/** Identifies a claim: an execution and the fence it was claimed under. */
export interface Claim {
  workspaceId: string;
  executionId: string;
  fence: number;
}

/** What a stack holds: a slot of its workspace for each of its bodies, and one of each key (D17). */
export interface Stack {
  frames: number;
  /** Execution policy keys, each once. */
  keys: string[];
}

/** A body is about to run: its journal row is made, or taken up again with the next run number. */
export interface StepStart extends Claim {
  /** The stack with the body on it. */
  stack: Stack;
  path: string;
  parentPath: string;
  position: number;
  id: string;
  name: string;
  args: string;
  executionPolicyKey: string | null;
  functionVersion: number;
  memoryLimitBytes: number;
  run: number;
  /** The caller's run that made the call, and its readings of the clock before it, as a JSON array (D12, D13). */
  recordedRun: number;
  clock: string | null;
  /** What the caller logged before the call: committed with its record, since a replay drops these lines (D14). */
  logs: LogRow[];
}

/** A log line with its number in the execution's log. */
export interface LogRow {
  id: number;
  path: string;
  run: number;
  at: number;
  level: LogLevel;
  message: string;
  attributes: string | null;
}

/**
 * What became of a start. `blocked`: a pool lacks room, and nothing is changed. `uncovered`: no execution policy covers the
 * key of this new call.
 */
export type StartOutcome = 'started' | 'blocked' | 'uncovered';

/** A body ended. `result` and `error` are JSON texts. */
export interface StepEnd extends Claim {
  /** The stack without the body. */
  stack: Stack;
  path: string;
  run: number;
  status: 'SUCCESS' | 'FAILED';
  result: string | null;
  error: string | null;
  usage: Usage | null;
  /** The position of the call that a failure came from (D9). */
  failingPosition: number | null;
  logs: LogRow[];
}

const fenced = `
  e as materialized (
    select e.workspace_id, e.id from executions e
    where (e.workspace_id, e.id, e.fence) in (select workspace_id, execution_id, fence from x)
      and e.status = 'RUNNING'
    order by e.workspace_id, e.id
    for share)`;

/** Inserts the lines of `logColumns`, which begin at parameter `first`, for the executions that `e` has locked. */
export const insertLogs = (first: number) => {
  const types = ['uuid', 'uuid', 'bigint', 'text', 'int', 'timestamptz', 'text', 'text', 'text'];
  const columns = 'workspace_id, execution_id, id, path, run, at, level, message, attributes';
  return `
    insert into logs (${columns})
    select l.* from unnest(${types.map((type, index) => `$${first + index}::${type}[]`).join(', ')}) as l(${columns})
      join e on e.workspace_id = l.workspace_id and e.id = l.execution_id
    on conflict do nothing`;
};

const startSql = `
with x as (
    select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::int[], $7::uuid[], $8::text[],
                         $9::text[], $10::text[], $11::int[], $12::bigint[], $13::int[], $14::int[], $15::text[])
    as x(workspace_id, execution_id, fence, path, parent_path, position, id, name,
         args, execution_policy_key, function_version, memory_limit_bytes, run, recorded_run, clock)),
t as materialized (
    select * from grow_stacks($1, $2, $3, $4, $13, $16::int[], $17::text[],
                              array(select coalesce(k, '') from unnest($10::text[]) k))),
e as (
    select x.workspace_id, x.execution_id as id from x join t on t.execution_id = x.execution_id and t.outcome = 'started'),
l as (${insertLogs(18)}),
i as (
insert into journal as j (workspace_id, execution_id, path, parent_path, position, id, kind, name, args, status,
                          execution_policy_key, function_version, memory_limit_bytes, runs, recorded_run, clock, started_at)
select x.workspace_id, x.execution_id, x.path, x.parent_path, x.position, x.id, 'job', x.name, x.args, 'RUNNING',
       x.execution_policy_key, x.function_version, x.memory_limit_bytes, x.run, x.recorded_run, x.clock, jobcell_now()
from x join e on e.workspace_id = x.workspace_id and e.id = x.execution_id
on conflict (workspace_id, execution_id, path) do update
  set status = 'RUNNING', runs = excluded.runs, function_version = excluded.function_version,
      execution_policy_key = excluded.execution_policy_key,
      result = null, error = null, failing_position = null, finished_at = null, started_at = excluded.started_at
  -- A start that was sent again, and whose first sending comes late, must not reopen what has ended meanwhile (D3).
  where j.status <> 'SUCCESS' and (j.runs < excluded.runs or (j.runs = excluded.runs and j.status = 'RUNNING'))
returning execution_id, path)
select execution_id, path, 'started' as outcome from i
union all
select execution_id, path, outcome from t where outcome <> 'started'`;

/**
 * Commits the starts that find room, at most one of each execution. Answers what became of those whose claim still
 * stands, by `stepKey`.
 */
export async function commitStarts(db: Queryable, starts: StepStart[]): Promise<Map<string, StartOutcome>> {
  const { rows } = await db.query<{ execution_id: string; path: string; outcome: StartOutcome }>({
    name: 'step-starts',
    text: startSql,
    values: [
      starts.map((s) => s.workspaceId),
      starts.map((s) => s.executionId),
      starts.map((s) => s.fence),
      starts.map((s) => s.path),
      starts.map((s) => s.parentPath),
      starts.map((s) => s.position),
      starts.map((s) => s.id),
      starts.map((s) => s.name),
      starts.map((s) => s.args),
      starts.map((s) => s.executionPolicyKey),
      starts.map((s) => s.functionVersion),
      starts.map((s) => s.memoryLimitBytes),
      starts.map((s) => s.run),
      starts.map((s) => s.recordedRun),
      starts.map((s) => s.clock),
      starts.map((s) => s.stack.frames),
      starts.map((s) => s.stack.keys.join(' ')),
      ...logColumns(starts.flatMap((start) => start.logs.map((line) => ({ claim: start, line })))),
    ],
  });
  return new Map(rows.map((row) => [stepKey(row.execution_id, row.path), row.outcome]));
}

const endSql = `
with x as (
    select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::int[], $6::text[], $7::text[], $8::text[],
                         $9::float8[], $10::float8[], $11::bigint[], $12::int[])
    as x(workspace_id, execution_id, fence, path, run, status, result, error, cpu_ms, wall_ms, peak_memory_bytes,
         failing_position)),
e as materialized (
    select workspace_id, execution_id as id from shrink_stacks($1, $2, $3, $4, $5, $13::int[], $14::text[])),
l as (${insertLogs(15)}),
-- One source for the whole primary key, or it is looked up by a part of it, and every step of the execution read.
w as materialized (select x.* from x join e on e.workspace_id = x.workspace_id and e.id = x.execution_id)
update journal j
set status = x.status, result = x.result, error = x.error, finished_at = coalesce(j.finished_at, jobcell_now()),
    cpu_ms = x.cpu_ms, wall_ms = x.wall_ms, peak_memory_bytes = x.peak_memory_bytes,
    failing_position = x.failing_position
from w x
where j.workspace_id = x.workspace_id and j.execution_id = x.execution_id and j.path = x.path and j.runs = x.run
returning j.execution_id, j.path`;

/** Commits the ends with their log lines, at most one of each execution; answers the keys of those whose claim still stands. */
export async function commitEnds(db: Queryable, ends: StepEnd[]): Promise<Set<string>> {
  const { rows } = await db.query<{ execution_id: string; path: string }>({
    name: 'step-ends',
    text: endSql,
    values: [
      ends.map((s) => s.workspaceId),
      ends.map((s) => s.executionId),
      ends.map((s) => s.fence),
      ends.map((s) => s.path),
      ends.map((s) => s.run),
      ends.map((s) => s.status),
      ends.map((s) => s.result),
      ends.map((s) => s.error),
      ends.map((s) => s.usage?.cpuMs ?? null),
      ends.map((s) => s.usage?.wallMs ?? null),
      ends.map((s) => s.usage?.peakMemoryBytes ?? null),
      ends.map((s) => s.failingPosition),
      ends.map((s) => s.stack.frames),
      ends.map((s) => s.stack.keys.join(' ')),
      ...logColumns(ends.flatMap((end) => end.logs.map((line) => ({ claim: end, line })))),
    ],
  });
  return new Set(rows.map((row) => stepKey(row.execution_id, row.path)));
}

/** The columns of log lines as `unnest` takes them: workspace, execution, id, path, run, at, level, message, attributes. */
export function logColumns(rows: { claim: Claim; line: LogRow }[]): unknown[][] {
  return [
    rows.map(({ claim }) => claim.workspaceId),
    rows.map(({ claim }) => claim.executionId),
    rows.map(({ line }) => line.id),
    rows.map(({ line }) => line.path),
    rows.map(({ line }) => line.run),
    rows.map(({ line }) => new Date(line.at).toISOString()),
    rows.map(({ line }) => line.level),
    rows.map(({ line }) => line.message),
    rows.map(({ line }) => line.attributes),
  ];
}

/** Writes log lines by themselves, so that they show while a body computes on. Lines of a lost claim are dropped. */
export async function commitLogs(db: Queryable, claim: Claim, lines: LogRow[]): Promise<void> {
  await db.query({
    name: 'logs',
    text: `with x as (select $1::uuid as workspace_id, $2::uuid as execution_id, $3::bigint as fence),${fenced}
           ${insertLogs(4)}`,
    values: [claim.workspaceId, claim.executionId, claim.fence, ...logColumns(lines.map((line) => ({ claim, line })))],
  });
}

/** Names a step among all executions: one statement writes for many. */
export const stepKey = (executionId: string, path: string) => `${executionId} ${path}`;
