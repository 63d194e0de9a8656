/**
 * What crosses between the server, a cell and an isolate: plain JSON, nothing else (rule S3).
 * Shared by src/sandbox (both sides of the process boundary) and by runtime-globals (types only).
 */

/** How a script's source is compiled; decided once at upload. */
export type ScriptFormat = 'module' | 'script';

/** STANDARD is a Function of the Function service, JOB a job function (behaviour.md 3). */
export type BodyType = 'STANDARD' | 'JOB';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** One log line of a script, made storable inside the isolate (D33). */
export interface LogLine {
  /** Milliseconds since the epoch. */
  at: number;
  level: LogLevel;
  message: string;
  /** JSON text of the line's attributes, where it has any. */
  attributes?: string;
}

/** An error as it leaves an isolate or is given to one: bounded, storable text (D33). */
export interface ScriptError {
  name: string;
  message: string;
  /** Source-mapped, without any frame of the host. */
  stack: string;
  /** Code of src/errors.ts where the error is ours (a limit, a mismatch, an unknown job function ...). */
  code?: string;
}

/**
 * The answer to a host call. `value` is JSON text, or undefined for JavaScript's undefined; `error` is thrown to the
 * script. `fatal` never returns to it: the body ends failed with that error and the stack of the call, and no `catch` or
 * `finally` of it runs.
 */
export type HostAnswer = { value: string | undefined } | { error: ScriptError } | { fatal: ScriptError };

/**
 * A call a script made to the host.
 * `position` is the place among its body's recorded calls, given inside the isolate at the call (D5); null for calls
 * that are not recorded.
 */
export interface HostCall {
  op: string;
  /** JSON text of the operation's arguments, an array: `["fetchData"]`, `["fetchData", { "executionPolicyKey": "premium" }]`. */
  args: string;
  /** JSON text of the one value the call hands on (what a job function's `main` receives); text, so that nobody parses it. */
  payload: string | null;
  position: number | null;
  /** The body's readings of the clock since its last recorded call, ms since the epoch (D12). */
  clock: number[];
  /** Log lines the body wrote since its last call, in order. */
  logs: LogLine[];
}

/** What an isolate needs to see the same time and chance as the runs of its body before it (D12, D13). */
export interface BodyReplay {
  /** Key of the body's chance: 32 bytes in base64, derived from the execution's secret and the body's path. */
  chanceKey: string;
  /** The number of this run of the body. */
  run: number;
  /** For each recorded call, by position: the run that recorded it, and the clock readings before it. Null: no record. */
  segments: ({ run: number; clock: number[] } | null)[];
}

/** What one run of a body used. */
export interface Usage {
  peakMemoryBytes: number;
  memoryLimitBytes: number;
  cpuMs: number;
  wallMs: number;
}

export interface BodyLimits {
  memoryMb: number;
  /** CPU time of this body's isolate, ms. */
  cpuMs: number;
  /** Wall time while its isolate is live and not blocked in a nested body (D26), ms. */
  wallMs: number;
}

/** The script of a body. The cell keeps sources by `hash`, so the text crosses once per cell. */
export interface ScriptSource {
  hash: string;
  format: ScriptFormat;
  /** File name in stack traces, for example `add-tax@3.js`. */
  fileName: string;
}
