import type { ErrorCode } from '../errors.ts';
import type { ScriptError } from '../sandbox/protocol.ts';
import type { ErrorKind } from '../sandbox/sandbox.ts';

/** An error as an execution or a job execution shows it (http-api.md, "Workflows and executions"). */
export interface Failure {
  name: string;
  message: string;
  stack: string;
  kind: ErrorKind;
  code: string;
  /** Stacked job name where it came from, for example `main-job/fetchData`. */
  at: string;
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
