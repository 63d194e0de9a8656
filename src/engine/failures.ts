import type { ErrorCode } from '../errors.ts';
import { limits } from '../limits.ts';
import type { ScriptError } from '../sandbox/protocol.ts';
import type { ErrorKind } from '../sandbox/sandbox.ts';
import type { Body } from './body.ts';

/** An error as an execution or a job execution shows it (http-api.md, "Workflows and executions"). */
export interface Failure {
  name: string;
  message: string;
  stack: string;
  kind: ErrorKind;
  code: string;
  /** Stacked job name where it came from, for example `main-job/fetchData`. */
  at: string;
  /** Of a mismatch that ended a resume: what had made the execution fail before it (D8). */
  previousError?: Failure;
}

/** A failure that the engine itself finds, with no line of the script behind it. */
export function engineFailure(code: ErrorCode, message: string, kind: ErrorKind, at: string): Failure {
  return { name: 'Error', message, stack: `Error: ${message}`, kind, code, at };
}

/** The error a script gets for a recorded failure: a real Error there, with name, message, stack and code. */
export function toScriptError(failure: Failure): ScriptError {
  const { name, message, stack, code } = failure;
  return code === 'SCRIPT_ERROR' ? { name, message, stack } : { name, message, stack, code };
}

/**
 * The failure of a body. An error that came from a call of its own and left the body as it came keeps its origin: `at`,
 * code and kind are those of the call's failure, so that an execution names the step that broke and not its parents.
 */
export function bodyFailure(
  error: ScriptError & { kind: ErrorKind },
  at: string,
  failedCall: Failure | undefined,
): Failure {
  if (failedCall && failedCall.name === error.name && failedCall.message === error.message) {
    return { ...failedCall, stack: error.stack };
  }
  const { name, message, stack, kind, code = 'SCRIPT_ERROR' } = error;
  return { name, message, stack, kind, code, at };
}

/** D7, D8: a replay that does not match what is recorded. */
export const mismatch = (body: Body, message: string): Failure =>
  engineFailure('ARGUMENT_MISMATCH', message, 'USER_RUNTIME', body.stackedName);

/** The mismatch with the line of the script that made the call, where the stack of the call could be had. */
export function atItsCall(failure: Failure, stack: string): Failure {
  const frame = /^\s+at (.+)$/m.exec(stack)?.[1];
  if (frame === undefined) return failure;
  return { ...failure, message: `${failure.message} The call is made at ${frame}.`, stack };
}

/** D8: the mismatch, and beside it the error that the execution had before; that of a mismatch before this one, too. */
export function withPreviousError(failure: Failure, before: string | null): Failure {
  if (before === null) return failure;
  const { previousError, ...error } = JSON.parse(before) as Failure;
  return { ...failure, previousError: previousError ?? error };
}

export function unknownJobFailure(body: Body): Failure {
  const call = body.parent ? 'execJobFunction failed: ' : '';
  const message =
    `${call}there is no job function ${JSON.stringify(body.call.name)} in this workspace. ` +
    'Upload it, or correct the name; names keep their case.';
  return engineFailure('JOB_FUNCTION_NOT_FOUND', message, 'USER_NON_RUNTIME', (body.parent ?? body).stackedName);
}

export function uncoveredKeyFailure(body: Body, declared: string[]): Failure {
  const message =
    `execJobFunction failed: no execution policy of this workspace covers the key ${JSON.stringify(body.call.executionPolicyKey)}. ` +
    (declared.length === 0 ? 'None is declared. ' : `Declared are ${declared.join(', ')}. `) +
    'Declare a policy for it, or correct the key.';
  return engineFailure('EXECUTION_POLICY_NOT_FOUND', message, 'USER_NON_RUNTIME', body.parent!.stackedName);
}

export function stackLimitFailure(child: Body, parent: Body): Failure {
  const message =
    `execJobFunction failed: ${JSON.stringify(child.call.name)} would be number ${child.frame} on the stack ` +
    `${parent.stackedName}; at most ${limits.stackFrames} job functions may be nested, the main one included. ` +
    'Start a workflow instead, or flatten the calls.';
  return engineFailure('STACK_LIMIT_EXCEEDED', message, 'USER_NON_RUNTIME', parent.stackedName);
}

export function journalLimitFailure(body: Body): Failure {
  const message =
    `The execution was given up: its journal holds ${limits.journalRecords} recorded calls, or 1 GiB of their values. ` +
    'Split the work over several executions, each started with startWorkflow.';
  return engineFailure('JOURNAL_LIMIT', message, 'USER_NON_RUNTIME', body.stackedName);
}
