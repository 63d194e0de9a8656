import type { Logger } from 'pino';
import { type ErrorCode, JobcellError } from '../errors.ts';
import { invokerOfStart } from '../globals/invoker.ts';
import type { HostAnswer, HostCall } from '../sandbox/protocol.ts';
import { isConnectionError } from '../store/connection-errors.ts';
import type { Queryable } from '../store/database.ts';

/** Starts an execution of a workflow; the engine does. @throws JobcellError NOT_FOUND when there is no such workflow. */
export type StartWorkflow = (request: {
  workspaceId: string;
  workflow: string;
  args: string;
  invoker: string | null;
  replay: undefined;
  idempotencyKey: undefined;
  depth: number;
}) => Promise<{ executionId: string }>;

export interface Caller {
  workspaceId: string;
  /** JSON text of `tailor.context.getInvoker()`. */
  invoker: string | null;
  executionId: string;
}

/** D25: a function that a person invokes stands at depth 0, what it starts one below. */
const startedDepth = 1;

/** Answers what a function asks of the host. Never rejects. */
export async function answerCall(
  call: HostCall,
  caller: Caller,
  { pool, startWorkflow, logger }: { pool: Queryable; startWorkflow: StartWorkflow; logger: Logger },
): Promise<HostAnswer> {
  if (call.op !== 'startWorkflow') return refused(call.op);
  const { workspaceId, executionId } = caller;
  const [workflow, options = {}] = JSON.parse(call.args) as [string, Record<string, unknown>?];
  const args = call.payload ?? '{}';
  try {
    // No workflow has such a name, and PostgreSQL cannot even be asked for it.
    if (workflow.includes('\0') || !workflow.isWellFormed()) return unknownWorkflow(workflow);
    const invoked = await invokerOfStart(pool, caller, options);
    if ('unknown' in invoked) return failed('MACHINE_USER_NOT_FOUND', invoked.unknown);
    const { invoker } = invoked;
    const request = { workspaceId, workflow, args, invoker, replay: undefined, idempotencyKey: undefined };
    const started = await startWorkflow({ ...request, depth: startedDepth });
    return { value: JSON.stringify(started.executionId) };
  } catch (error) {
    if (error instanceof JobcellError && error.code === 'NOT_FOUND') return unknownWorkflow(workflow);
    if (isConnectionError(error)) {
      return failed(
        'UNAVAILABLE',
        'startWorkflow failed: the database cannot be reached, so it is not known whether the execution was started.',
      );
    }
    logger.error({ err: error, executionId }, 'startWorkflow of a function failed');
    return failed('INTERNAL', 'startWorkflow failed; the server log has the cause under the execution id.');
  }
}

const unknownWorkflow = (name: string) =>
  failed(
    'WORKFLOW_NOT_FOUND',
    `startWorkflow failed: there is no workflow ${JSON.stringify(name)} in this workspace. Create it, or correct the name.`,
  );

/** A function has no journal and cannot be suspended, so whatever needs one is not for it. */
function refused(op: string): HostAnswer {
  return failed(
    'CALL_NOT_ALLOWED',
    `${op} failed: it works only inside a workflow, and this is a function, which has no journal to record it in. ` +
      'Start a workflow with tailor.workflow.startWorkflow and make the call in a job function of it.',
  );
}

const failed = (code: ErrorCode, message: string) => ({ error: { name: 'Error', message, stack: '', code } });
