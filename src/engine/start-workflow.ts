import { randomBytes } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import { invokerOfStart } from '../globals/invoker.ts';
import { limits } from '../limits.ts';
import { untilConnected } from '../store/connection-errors.ts';
import { recordStartedExecution } from '../store/journal.ts';
import type { CarryOut } from './calls.ts';
import { engineFailure } from './failures.ts';
import { finishedRecord } from './tree.ts';

/** The bytes that chance inside an execution comes from (D13). */
const seedBytes = 32;
export const newSeed = () => randomBytes(seedBytes);

/** D5, D6, D25: the new execution and the record of the call commit together. */
export const startWorkflow: CarryOut = async (tree, body, call, options) => {
  const { context, execution } = tree.run;
  const depth = execution.depth + 1;
  const refuse = (code: 'BAD_REQUEST' | 'MACHINE_USER_NOT_FOUND' | 'WORKFLOW_NOT_FOUND', message: string) =>
    tree.refuseCall(body, call, engineFailure(code, message, 'USER_NON_RUNTIME', body.stackedName));
  if (depth > limits.depth) {
    return refuse(
      'BAD_REQUEST',
      `startWorkflow failed: ${JSON.stringify(call.name)} would be nested ${depth} levels deep; ` +
        `at most ${limits.depth} nested requests are allowed. Look for workflows that start each other in a circle.`,
    );
  }
  const started = await untilConnected(() => invokerOfStart(context.pool, execution, options));
  if ('unknown' in started) return refuse('MACHINE_USER_NOT_FOUND', started.unknown);
  const id = uuidv7();
  const record = finishedRecord(body, call, { result: JSON.stringify(id) });
  const finished = { ...execution, ...record, ...record.values, ...call, id: uuidv7(), logs: tree.log.take() };
  const next = {
    id,
    workspaceId: execution.workspaceId,
    workflow: call.name,
    args: call.args,
    invoker: started.invoker,
    depth,
    parent: { executionId: execution.executionId, path: record.path },
    replay: execution.replay,
    seed: newSeed(),
    idempotencyKey: null,
  };
  if (!(await untilConnected(() => recordStartedExecution(context.pool, finished, next)))) {
    return refuse(
      'WORKFLOW_NOT_FOUND',
      `startWorkflow failed: there is no workflow ${JSON.stringify(call.name)} in this workspace. Create it, or correct the name.`,
    );
  }
  tree.journal.put(record);
  return record;
};
