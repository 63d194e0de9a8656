import { uuidv7 } from 'uuidv7';
import { untilConnected } from '../store/connection-errors.ts';
import { isUuid } from '../store/cursor.ts';
import { resumeFromScript } from '../store/resume.ts';
import type { CarryOut } from './calls.ts';
import { engineFailure } from './failures.ts';
import { planResume } from './resume.ts';
import { finishedRecord } from './tree.ts';

/** `resumeWorkflowExecution(executionId)`: resumes another execution; effect and record commit together (D6). */
export const resumeOther: CarryOut = async (tree, body, call) => {
  const { execution, context } = tree.run;
  const { workspaceId } = execution;
  const executionId = call.name;
  const refuse = (message: string) =>
    tree.refuseCall(
      body,
      call,
      engineFailure('CONFLICT', `resumeWorkflow failed: ${message}`, 'USER_NON_RUNTIME', body.stackedName),
    );
  if (!isUuid(executionId)) return refuse(`${JSON.stringify(executionId)} is not the id of an execution.`);
  const record = finishedRecord(body, call, { result: JSON.stringify(executionId) });
  const finished = {
    ...execution,
    ...record,
    ...record.values,
    ...call,
    status: 'SUCCESS' as const,
    id: uuidv7(),
    logs: tree.log.take(),
  };
  const outcome = await untilConnected(() =>
    resumeFromScript(context.pool, { workspaceId, executionId, code: 'latest' }, planResume(undefined), finished),
  );
  if (outcome.type !== 'resumed') tree.log.putBack(finished.logs);
  if (outcome.type === 'not-found') return refuse(`there is no execution ${executionId} in this workspace.`);
  if (outcome.type === 'refused') {
    return refuse(
      `execution ${executionId} is ${outcome.status}; only FAILED, PENDING_RETRY and CANCELED ones can be resumed.`,
    );
  }
  tree.journal.put(record);
  return record;
};
