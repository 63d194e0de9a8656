import { uuidv7 } from 'uuidv7';
import { JobcellError } from '../errors.ts';
import type { ScriptError } from '../sandbox/protocol.ts';
import { untilConnected } from '../store/connection-errors.ts';
import { isUuid } from '../store/cursor.ts';
import type { Pool } from '../store/database.ts';
import {
  commitWait,
  findWait,
  resolveWait,
  resolveWaitFromScript,
  type WaitKey,
  type WaitState,
} from '../store/waits.ts';
import type { Body } from './body.ts';
import type { CarryOut } from './calls.ts';
import { engineFailure } from './failures.ts';
import type { MadeCall } from './replay.ts';
import { finishedRecord, type Tree } from './tree.ts';

/** Parks the execution: its tree is dropped, and it holds nothing until the wait is resolved (E5). */
export const wait: CarryOut = async (tree, body, call) => {
  const { execution, context } = tree.run;
  // The tree goes first: what it holds is free before anybody can claim the execution again (D4).
  const parked = { ...execution, ...finishedRecord(body, call), ...call, id: uuidv7(), logs: tree.log.take() };
  tree.stop({ type: 'parked' });
  await tree.dropped();
  await untilConnected(() => commitWait(context.pool, parked));
  return null;
};

/** The first half of `resolve`: the payload of the wait, for the script's callback. */
export const beginResolve: CarryOut = async (tree, body, call) => {
  const target = targetOf(tree, call);
  if (!target) return tree.refuseCall(body, call, noExecution(body, call));
  const found = await untilConnected(() => findWait(tree.run.context.pool, target));
  if (found.type === 'waiting') return { answer: { value: `{"payload":${found.payload}}` } };
  return refuseResolve(tree, body, call, target.executionId, found);
};

/** The second half: one commit wins, the others are rejected (D10). */
export const commitResolve: CarryOut = async (tree, body, call, options) => {
  const target = targetOf(tree, call);
  if (!target) return tree.refuseCall(body, call, noExecution(body, call));
  if (isScriptError(options.error)) {
    // The script's callback threw: nothing is resolved, and a replay gets the same error.
    const { name, message, stack } = options.error;
    const failure = { name, message, stack, kind: 'USER_RUNTIME' as const, code: 'SCRIPT_ERROR', at: body.stackedName };
    return tree.refuseCall(body, call, failure);
  }
  const record = finishedRecord(body, call);
  const finished = { ...tree.run.execution, ...record, ...record.values, ...call, id: uuidv7(), logs: tree.log.take() };
  const result = typeof options.result === 'string' ? options.result : 'null';
  const { pool } = tree.run.context;
  const found = await untilConnected(() => resolveWaitFromScript(pool, target, result, finished));
  if (found.type !== 'waiting') {
    tree.log.putBack(finished.logs);
    return refuseResolve(tree, body, call, target.executionId, found);
  }
  tree.journal.put(record);
  return record;
};

/** `resolve` records `{ executionId }` as its arguments and the key as its name. */
function targetOf(tree: Tree, call: MadeCall) {
  const { executionId } = JSON.parse(call.args) as { executionId?: unknown };
  if (typeof executionId !== 'string' || !isUuid(executionId)) return null;
  return { workspaceId: tree.run.execution.workspaceId, executionId, key: call.name };
}

function isScriptError(value: unknown): value is ScriptError {
  return typeof value === 'object' && value !== null && 'message' in value && 'name' in value && 'stack' in value;
}

function refuseResolve(tree: Tree, body: Body, call: MadeCall, executionId: string, found: WaitState) {
  const resolved = found.type === 'resolved';
  const failure = engineFailure(
    resolved ? 'ALREADY_RESOLVED' : 'NOT_WAITING',
    resolved
      ? `resolve failed: the wait ${JSON.stringify(call.name)} of execution ${executionId} was resolved already; it keeps the first result.`
      : `resolve failed: execution ${executionId} does not wait for ${JSON.stringify(call.name)} (yet). Look at its \`waitingFor\`.`,
    'USER_NON_RUNTIME',
    body.stackedName,
  );
  return tree.refuseCall(body, call, failure);
}

/** A person's or another system's resolve, over HTTP. @throws JobcellError NOT_WAITING, ALREADY_RESOLVED, NOT_FOUND */
export async function resolve(pool: Pool, wait: WaitKey, result: string): Promise<void> {
  const found = await resolveWait(pool, wait, result);
  if (found.type === 'resolved') {
    throw new JobcellError(
      'ALREADY_RESOLVED',
      `The wait \`${wait.key}\` of execution ${wait.executionId} was resolved already; it keeps the first result.`,
    );
  }
  if (found.type === 'not-waiting') {
    throw new JobcellError(
      'NOT_WAITING',
      `Execution ${wait.executionId} does not wait for \`${wait.key}\` (yet). Look at its \`waitingFor\`.`,
    );
  }
}

function noExecution(body: Body, call: MadeCall) {
  const { executionId } = JSON.parse(call.args) as { executionId?: unknown };
  const message = `resolve failed: ${JSON.stringify(executionId)} is not the id of an execution.`;
  return engineFailure('BAD_REQUEST', message, 'USER_NON_RUNTIME', body.stackedName);
}
