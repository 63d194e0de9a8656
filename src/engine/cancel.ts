import { JobcellError } from '../errors.ts';
import { cancelExecution } from '../store/cancel.ts';
import type { Pool } from '../store/database.ts';

/** D29: cancels what is not final; canceling what is canceled already is no error. @throws JobcellError NOT_FOUND, CONFLICT */
export async function cancel(pool: Pool, workspaceId: string, executionId: string): Promise<void> {
  const outcome = await cancelExecution(pool, workspaceId, executionId);
  if (outcome === 'not-found') {
    throw new JobcellError('NOT_FOUND', `There is no execution ${executionId} in this workspace.`);
  }
  if (typeof outcome === 'object') {
    throw new JobcellError(
      'CONFLICT',
      `Execution ${executionId} is ${outcome.finished} already; there is nothing to cancel.`,
    );
  }
}
