import { JobcellError } from '../errors.ts';
import type { Pool } from '../store/database.ts';
import { type PlanResume, resumeExecution } from '../store/resume.ts';
import { failedPath, forgetFrom } from './failed-path.ts';

/** D9, or D8 with `from`. @throws JobcellError BAD_REQUEST when there is no record at that path. */
export const planResume =
  (from: string | undefined): PlanResume =>
  (records, mainPath) => {
    if (from === undefined) return { again: failedPath(records, mainPath), forget: [] };
    const plan = forgetFrom(records, from);
    if (plan) return { forget: plan.forget, again: [...new Set([...plan.again, ...failedPath(records, mainPath)])] };
    throw new JobcellError('BAD_REQUEST', `\`from\`: there is no recorded call at ${JSON.stringify(from)}.`, {
      errors: [{ path: 'from', message: 'must be the path of a recorded call, as its journal shows it' }],
    });
  };

/** A person's resume, over HTTP. @throws JobcellError NOT_FOUND, CONFLICT, BAD_REQUEST */
export async function resume(
  pool: Pool,
  request: { workspaceId: string; executionId: string; code: 'latest' | 'pinned'; from: string | undefined },
): Promise<void> {
  const outcome = await resumeExecution(pool, request, planResume(request.from));
  if (outcome.type === 'not-found') {
    throw new JobcellError('NOT_FOUND', `There is no execution ${request.executionId} in this workspace.`);
  }
  if (outcome.type === 'refused') {
    throw new JobcellError(
      'CONFLICT',
      `Execution ${request.executionId} is ${outcome.status}; only FAILED, PENDING_RETRY and CANCELED ones can be resumed.`,
    );
  }
}
