import type { ErrorCode } from '../errors.ts';
import type { BodyLimits, LogLine, ScriptError, Usage } from '../sandbox/protocol.ts';
import type { BodyEnd, ErrorKind } from '../sandbox/sandbox.ts';

/** What made an invocation fail, as it is stored and answered. */
export interface FunctionFailure {
  name: string;
  message: string;
  stack: string;
  kind: ErrorKind;
  /** Of src/errors.ts. */
  code: string;
  /** The function's name; `test-run` for a script that is not stored. */
  at: string;
  /** Of INVALID_SCRIPT, as far as they are known. */
  line?: number | null;
  column?: number | null;
}

export type Outcome =
  /** `result` is JSON text. */
  | { status: 'SUCCESS'; result: string }
  | { status: 'FAILED'; failure: FunctionFailure }
  /** Nobody waits for the answer any more. */
  | { status: 'CANCELED' };

/** An invocation that was started, at its end. */
export type Invoked = Outcome & {
  executionId: string;
  logs: LogLine[];
  usage: Usage;
  /** Waiting for a cell, and the run, ms. */
  queueMs: number;
  runMs: number;
};

/** Why a run was ended from here before its own end. */
export type Interruption = 'client-gone' | 'workspace-deleted' | 'server-stops';

/** What the end of the body means for its invocation. */
export function outcomeOf(end: BodyEnd, at: string, interruption: Interruption | undefined): Outcome {
  if (end.type === 'returned') return { status: 'SUCCESS', result: end.result };
  if (end.type === 'failed') return { status: 'FAILED', failure: scriptFailure(end.error, at) };
  if (interruption === 'client-gone') return { status: 'CANCELED' };
  if (interruption === 'workspace-deleted') return { status: 'FAILED', failure: workspaceDeleted(at) };
  return { status: 'FAILED', failure: end.lost ? cellLost(at) : serverStops(at) };
}

function scriptFailure(error: ScriptError & { kind: ErrorKind }, at: string): FunctionFailure {
  const { name, message, stack, kind, code = 'SCRIPT_ERROR' } = error;
  return { name, message, stack, kind, code, at };
}

/** A script that does not even come to its run. */
export function invalidScript(
  check: { message: string; line: number | null; column: number | null },
  at: string,
): Outcome {
  const { message, line, column } = check;
  return { status: 'FAILED', failure: { ...ours('INVALID_SCRIPT', message, 'USER_NON_RUNTIME', at), line, column } };
}

const ours = (code: ErrorCode, message: string, kind: ErrorKind, at: string): FunctionFailure => ({
  name: 'Error',
  message,
  stack: '',
  kind,
  code,
  at,
});

/** A job function would run again (D23). A function is not durable: only its caller knows whether it may run twice. */
const cellLost = (at: string) =>
  ours(
    'CELL_LOST',
    "The function's sandbox process was ended from outside, by the system's out-of-memory killer or by hand. It is not " +
      'run again by itself, and what it has done so far stands. Send the request again if it may run twice.',
    'PLATFORM',
    at,
  );

/** D31. */
const workspaceDeleted = (at: string) =>
  ours(
    'CONFLICT',
    'The workspace is being deleted, and the function was ended. What it has done so far stands.',
    'PLATFORM',
    at,
  );

/** D30. */
const serverStops = (at: string) =>
  ours(
    'UNAVAILABLE',
    'The server stops, and the function did not end in time. What it has done so far stands. ' +
      'Send the request to another server, or again in a moment, if it may run twice.',
    'PLATFORM',
    at,
  );

/** Of a body that ended without a word. */
export const unknownUsage = ({ memoryMb }: BodyLimits, wallMs: number): Usage => ({
  peakMemoryBytes: 0,
  memoryLimitBytes: memoryMb * 1024 * 1024,
  cpuMs: 0,
  wallMs,
});
