import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import type { Queryable } from '../store/database.ts';
import {
  callStatuses,
  type ExecutionSummary,
  executionStatuses,
  getExecution,
  listCalls,
  type RecordedCall,
  type StoredJson,
} from '../store/execution-reads.ts';
import { recordKinds } from '../store/journal.ts';
import { whyBlocked } from '../store/pools.ts';
import { currentWait } from '../store/waits.ts';
import type { Workspace } from '../store/workspaces.ts';
import type { RawJson } from './json.ts';
import {
  anyJson,
  embeddedJson,
  executionError,
  optionalTimestamp,
  timestamp,
  toEmbeddedJson,
  toOptionalTimestamp,
  toRawJson,
  toTimestamp,
} from './schemas.ts';

/** How executions and their recorded calls look in answers. */

export const executionStatusSchema = z.enum(executionStatuses);

export const executionSummarySchema = z
  .object({
    id: z.uuid(),
    workflow: z.string(),
    status: executionStatusSchema,
    error: executionError,
    attempt: z.int(),
    depth: z.int().describe('How many executions lie above it, each started by the one before'),
    parent: z
      .object({ executionId: z.uuid(), path: z.string().describe('Path of the call that started it') })
      .nullable(),
    revision: z.int().describe('Revision of the workspace that its job functions are resolved at'),
    retryCount: z.int(),
    retryAfter: optionalTimestamp,
    createdAt: timestamp,
    startedAt: optionalTimestamp,
    finishedAt: optionalTimestamp,
  })
  .meta({ id: 'ExecutionSummary' });

export const usageSchema = z
  .object({ peakMemoryBytes: z.int(), memoryLimitBytes: z.int(), cpuMs: z.number(), wallMs: z.number() })
  .meta({ id: 'Usage' });

const jobExecution = <Value extends z.ZodType>(value: Value) =>
  z.object({
    id: z.uuid(),
    path: z.string().describe('Tells calls of one name apart: `main-job/0:fetchData`'),
    stackedJobName: z.string().describe('`main-job/fetchData`'),
    name: z.string(),
    status: z.enum(callStatuses),
    args: value,
    result: value,
    error: executionError,
    executionPolicyKey: z.string().nullable(),
    functionVersion: z.int().nullable(),
    runs: z.int().describe('How often its body was really started'),
    startedAt: timestamp,
    finishedAt: optionalTimestamp,
    usage: usageSchema.nullable(),
  });

export const jobExecutionSchema = jobExecution(embeddedJson).meta({ id: 'JobExecution' });
export const fullJobExecutionSchema = jobExecution(anyJson).meta({ id: 'FullJobExecution' });

export const journalRecordSchema = jobExecution(embeddedJson)
  .extend({
    kind: z.enum(recordKinds),
    parentPath: z.string().describe('Path of the body that made the call; empty for main'),
    position: z.int().describe('Its place among the recorded calls of that body'),
  })
  .meta({ id: 'JournalRecord' });

const waitingForSchema = z.discriminatedUnion('reason', [
  z.object({ reason: z.literal('SIGNAL'), key: z.string(), payload: embeddedJson }),
  z.object({ reason: z.literal('RETRY'), retryAfter: timestamp }),
  z.object({
    reason: z
      .enum(['EXECUTIONS', 'WORKFLOW', 'POOL', 'CELL', 'RESUME'])
      .describe(
        'A cap: of executions in the workspace, of its workflow, of dispatches. CELL: nothing lacks but a free sandbox process. RESUME: its last run has yet to be confirmed as stopped',
      ),
    need: z
      .array(z.object({ pool: z.string(), slots: z.int() }))
      .describe('All that has to be free at once for it to go on'),
    pool: z.string().nullable().describe('The pool that lacks room, as in /pools; `workspace` for all dispatches'),
    policy: z.string().nullable().describe('The execution policy whose cap it is'),
    cap: z.int().nullable(),
    inUse: z.int().nullable(),
    holders: z.array(z.uuid()).describe('Executions that hold slots of that pool, oldest first'),
    position: z.int().nullable().describe('Its place among those that want a slot of that pool, from 1'),
  }),
]);

export const executionSchema = executionSummarySchema
  .extend({
    args: embeddedJson,
    result: embeddedJson,
    stack: z.array(z.string()).describe('Names of the bodies that run right now, outermost first'),
    jobExecutions: z
      .array(jobExecutionSchema)
      .describe(`The first ${limits.embeddedJobExecutions} job executions, main first`),
    jobExecutionsCursor: z
      .string()
      .nullable()
      .describe('Where there are more: the `cursor` for .../job-executions that goes on behind these'),
    waitingFor: waitingForSchema.nullable().describe('Why it does not go on by itself right now'),
  })
  .meta({ id: 'Execution' });

export const logLineSchema = z
  .object({
    at: timestamp,
    level: z.string(),
    message: z.string(),
    attributes: anyJson,
    path: z.string().describe('Path of the body that wrote it'),
    run: z.int().describe('Which run of that body'),
  })
  .meta({ id: 'LogLine' });

export const toSummaryView = (execution: ExecutionSummary): z.infer<typeof executionSummarySchema> => ({
  id: execution.id,
  workflow: execution.workflow,
  status: execution.status,
  error: toRawJson(execution.error),
  attempt: execution.attempt,
  depth: execution.depth,
  parent: execution.parent,
  revision: execution.revision,
  retryCount: execution.retryCount,
  retryAfter: toOptionalTimestamp(execution.retryAfter),
  createdAt: toTimestamp(execution.createdAt),
  startedAt: toOptionalTimestamp(execution.startedAt),
  finishedAt: toOptionalTimestamp(execution.finishedAt),
});

/** Names on a path, outermost first. Its first part is main's name; each further one is `position:name`. */
const namesOf = (path: string): string[] =>
  path.split('/').map((part, index) => (index === 0 ? part : part.slice(part.indexOf(':') + 1)));

function callView<Value>(call: RecordedCall, value: (stored: StoredJson | null) => Value) {
  return {
    id: call.id,
    path: call.path,
    stackedJobName: namesOf(call.path).join('/'),
    name: call.name,
    status: call.status,
    args: value(call.args),
    result: value(call.result),
    error: toRawJson(call.error),
    executionPolicyKey: call.executionPolicyKey,
    functionVersion: call.functionVersion,
    runs: call.runs,
    startedAt: toTimestamp(call.startedAt),
    finishedAt: toOptionalTimestamp(call.finishedAt),
    usage: call.usage,
  };
}

export const toJobExecutionView = (call: RecordedCall): z.infer<typeof jobExecutionSchema> =>
  callView(call, toEmbeddedJson);

export const toFullJobExecutionView = (call: RecordedCall): z.infer<typeof fullJobExecutionSchema> =>
  callView(call, (stored): RawJson | null => toRawJson(stored?.text ?? null));

export const toJournalRecordView = (call: RecordedCall): z.infer<typeof journalRecordSchema> => ({
  ...callView(call, toEmbeddedJson),
  kind: call.kind,
  parentPath: call.parentPath,
  position: call.position,
});

export const noExecution = (workspace: Workspace, id: string): JobcellError =>
  new JobcellError('NOT_FOUND', `There is no execution \`${id}\` in workspace \`${workspace.name}\`.`);

/** Reads of an execution that goes on meanwhile: from a waiting status to the next, it is read anew so often. */
const reads = 5;

/** An execution with its stack and its first steps. @throws JobcellError NOT_FOUND */
export async function readExecution(
  db: Queryable,
  workspace: Workspace,
  id: string,
): Promise<z.infer<typeof executionSchema>> {
  for (let left = reads; ; left--) {
    const execution = await getExecution(db, workspace.id, id);
    if (execution === null) throw noExecution(workspace, id);
    const waiting = await waitingFor(db, workspace, execution);
    // It was claimed, resolved or canceled between the two reads: its status and why it waits are to fit together.
    if (waiting === 'changed' && left > 1) continue;
    // Read after the execution, so that a final status never stands beside a step that is not finished yet.
    const steps = await listCalls(db, workspace.id, id, { kind: 'job', limit: limits.embeddedJobExecutions });
    // In the order in which a person reads it.
    const { id: executionId, workflow, status, ...rest } = toSummaryView(execution);
    return {
      id: executionId,
      workflow,
      status,
      args: toEmbeddedJson(execution.args),
      result: toEmbeddedJson(execution.result),
      ...rest,
      stack: execution.stack.map((path) => namesOf(path).at(-1)!),
      jobExecutions: steps.items.map(toJobExecutionView),
      jobExecutionsCursor: steps.nextCursor,
      waitingFor: waiting === 'changed' ? null : waiting,
    };
  }
}

const blockedReasons = { executions: 'EXECUTIONS', workflow: 'WORKFLOW', workspace: 'POOL', key: 'POOL' } as const;

/** As it is now, not as it was when the execution was tried last. `changed`: it no longer waits as it did. */
async function waitingFor(
  db: Queryable,
  workspace: Workspace,
  { id, status, retryAfter }: ExecutionSummary,
): Promise<z.infer<typeof waitingForSchema> | null | 'changed'> {
  if (status === 'WAITING') {
    const wait = await currentWait(db, workspace.id, id);
    return wait ? { reason: 'SIGNAL', key: wait.key, payload: toEmbeddedJson(wait.payload) } : 'changed';
  }
  if (status !== 'PENDING' && status !== 'PENDING_RESUME' && status !== 'PENDING_RETRY') return null;
  const blocked = await whyBlocked(db, workspace.id, id);
  if (blocked === null) {
    const isRetry = status === 'PENDING_RETRY' && retryAfter !== null;
    return !isRetry ? 'changed' : { reason: 'RETRY', retryAfter: toTimestamp(retryAfter) };
  }
  const { kind, stopping, ...rest } = blocked;
  const reason = kind === null ? 'CELL' : blockedReasons[kind];
  return { reason: stopping ? 'RESUME' : reason, ...rest };
}
