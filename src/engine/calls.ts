import { randomBytes } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import { limits } from '../limits.ts';
import type { HostAnswer, HostCall } from '../sandbox/protocol.ts';
import { untilConnected } from '../store/connection-errors.ts';
import { type JournalRecord, recordStartedExecution } from '../store/journal.ts';
import { type Body, childPath } from './body.ts';
import { engineFailure, type Failure, toScriptError } from './failures.ts';
import { type Call, matches, mismatchMessage } from './replay.ts';
import type { Tree } from './tree.ts';

/** The bytes that chance inside an execution comes from (D13). */
export const seedBytes = 32;

/**
 * Answers a call of a body: from the record, or by carrying it out and recording it.
 * @returns null when the tree has ended meanwhile; nobody waits for an answer then.
 */
export async function handleCall(tree: Tree, body: Body, call: HostCall): Promise<HostAnswer | null> {
  const operation = operations[call.op];
  if (!operation || call.position === null) {
    return { error: { name: 'TypeError', message: `${call.op} is not a call a job function can make`, stack: '' } };
  }
  const [name, options] = JSON.parse(call.args) as [string, Record<string, unknown>?];
  const made: Call = { kind: operation.kind, name, args: call.payload ?? '{}' };
  const recorded = tree.journal.at(body.path, call.position);
  if (recorded && !matches(recorded, made)) {
    tree.failExecution(tree.mismatch(body, mismatchMessage(body.path, call.position, recorded, made)));
    return null;
  }
  if (recorded && (recorded.status === 'SUCCESS' || recorded.status === 'FAILED')) return answer(recorded);
  if (!recorded && tree.journal.size >= limits.journalRecords) {
    tree.failExecution(journalLimitFailure(body));
    return null;
  }
  const record = await operation.carryOut(tree, body, call.position, made, options ?? {});
  if (!record || tree.stopped) return null;
  // D15: every step is followed by a replay, so that what is not deterministic shows at once.
  if (tree.run.execution.replay === 'always') {
    tree.stop({ type: 'again' });
    return null;
  }
  return answer(record);
}

function answer(record: JournalRecord): HostAnswer {
  if (record.status === 'SUCCESS') return { value: record.result ?? 'null' };
  return { error: toScriptError(JSON.parse(record.error!) as Failure) };
}

interface Operation {
  kind: Call['kind'];
  /** Carries the call out and commits its record. @returns null when the tree has ended. */
  carryOut: (
    tree: Tree,
    body: Body,
    position: number,
    call: Call,
    options: Record<string, unknown>,
  ) => Promise<JournalRecord | null>;
}

const operations: Record<string, Operation> = {
  execJobFunction: {
    kind: 'job',
    carryOut: (tree, body, position, call, options) => {
      const key = typeof options.executionPolicyKey === 'string' ? options.executionPolicyKey : null;
      return tree.runChild(body, position, call, key);
    },
  },
  startWorkflow: { kind: 'startWorkflow', carryOut: startWorkflow },
};

/** D5, D6, D25: the new execution and the record of the call commit together. */
async function startWorkflow(tree: Tree, body: Body, position: number, call: Call): Promise<JournalRecord> {
  const { context, execution } = tree.run;
  const depth = execution.depth + 1;
  const refuse = (code: 'BAD_REQUEST' | 'WORKFLOW_NOT_FOUND', message: string) =>
    tree.refuseCall(body, position, call, null, engineFailure(code, message, 'USER_NON_RUNTIME', body.stackedName));
  if (depth > limits.depth) {
    return refuse(
      'BAD_REQUEST',
      `startWorkflow failed: ${JSON.stringify(call.name)} would be nested ${depth} levels deep; ` +
        `at most ${limits.depth} nested requests are allowed. Look for workflows that start each other in a circle.`,
    );
  }
  const id = uuidv7();
  const record: JournalRecord = {
    path: childPath(body.path, position, call.name),
    parentPath: body.path,
    position,
    ...call,
    status: 'SUCCESS',
    result: JSON.stringify(id),
    error: null,
    functionVersion: null,
    runs: 0,
  };
  const finished = {
    ...execution,
    ...record,
    status: 'SUCCESS' as const,
    id: uuidv7(),
    executionPolicyKey: null,
    logs: tree.log.take(),
  };
  const started = {
    id,
    workspaceId: execution.workspaceId,
    workflow: call.name,
    args: call.args,
    invoker: execution.invoker,
    depth,
    parent: { executionId: execution.executionId, path: record.path },
    replay: execution.replay,
    seed: randomBytes(seedBytes),
    idempotencyKey: null,
  };
  if (!(await untilConnected(() => recordStartedExecution(context.pool, finished, started)))) {
    return refuse(
      'WORKFLOW_NOT_FOUND',
      `startWorkflow failed: there is no workflow ${JSON.stringify(call.name)} in this workspace. Create it, or correct the name.`,
    );
  }
  tree.journal.put(record);
  return record;
}

function journalLimitFailure(body: Body): Failure {
  const message =
    `The execution was given up at its ${limits.journalRecords}th recorded call. ` +
    'Split the work over several executions, each started with startWorkflow.';
  return engineFailure('JOURNAL_LIMIT', message, 'USER_NON_RUNTIME', body.stackedName);
}
