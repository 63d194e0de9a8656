import type {
  BodyLimits,
  BodyReplay,
  BodyType,
  HostAnswer,
  HostCall,
  LogLine,
  ScriptError,
  ScriptFormat,
  ScriptSource,
  Usage,
} from './protocol.ts';

/** The sandbox as the rest of the server sees it: cells are leased, bodies run in them, host calls come back out. */
export interface Sandbox {
  /** Starts the prewarmed cells; resolves when one real isolate has run (what /readyz reports). */
  start(): Promise<void>;
  /** SIGKILLs every cell and waits until all are gone. */
  stop(): Promise<void>;
  /** How many more cells `acquire` would hand out at once without waiting, outside of the reserve. */
  free(): number;
  /** Calls back whenever a cell becomes free after none was. */
  onFree(callback: () => void): void;
  /**
   * Hands out a cell for one run. Cells are reused only for the same workspace after a clean end. With `reserve` it may
   * be one of those that are kept for short work (`fairness.ts`).
   * @throws JobcellError OVERLOADED when none is free within `waitMs`, or the signal's reason.
   */
  acquire(options: {
    workspaceId: string;
    reserve?: boolean;
    waitMs?: number;
    signal?: AbortSignal;
  }): Promise<CellLease>;
  /**
   * Checks a script for upload: compiles and evaluates it with every host call refused. Never rejects for the script's
   * fault. `memoryMb` is the limit under which the script will run. With a `workspaceId` the cell may be used again for
   * that workspace; without one it is thrown away.
   * @throws JobcellError OVERLOADED when no cell is free in time.
   */
  check(source: string, memoryMb: number, workspaceId?: string): Promise<ScriptCheck>;
  /**
   * Pushes the lease of all cells on (D4): each kills itself when the machine's monotonic clock is `msFromNow` further,
   * whatever has become of this process. No cell has a deadline before the first call.
   */
  extendDeadline(msFromNow: number): void;
}

export type ScriptCheck =
  | { ok: true; format: ScriptFormat }
  | { ok: false; message: string; line: number | null; column: number | null };

/** A cell, leased to one run (rule S2). */
export interface CellLease {
  readonly pid: number;
  /**
   * Runs one body in a fresh isolate. Called again from inside `onCall` for a nested body. Never rejects.
   * The caller commits the body's start BEFORE it calls this.
   */
  run(body: BodyRequest): Promise<BodyEnd>;
  /** Checks a script as `Sandbox.check` does, in this cell; nothing else may run in it meanwhile. */
  check(source: string, memoryMb: number): Promise<ScriptCheck>;
  /** Ends every isolate of the run without an answer to anything; a clean end (sandbox.md, The design, 8). */
  drop(): Promise<void>;
  /** Gives the cell back. After this the lease is dead. Resolves once its tree is confirmed gone. */
  release(): Promise<void>;
}

export interface BodyRequest {
  /** Stacked name for errors and diagnosis, for example `main-job/fetchData`. */
  label: string;
  type: BodyType;
  script: ScriptSource;
  /** Loads the script's text; called only when this cell does not hold it yet. */
  loadSource: () => Promise<string>;
  /** Loads a source map uploaded beside the script; called only when an error of it has to be mapped. */
  loadSourceMap: () => Promise<string | null>;
  /** JSON text handed to `main`. */
  args: string;
  /** JSON text of what `tailor.context` answers without a host call: `{ invoker }`. */
  context: string;
  limits: BodyLimits;
  /** Null: time and chance are real, nothing of this body is ever replayed. */
  replay: BodyReplay | null;
  /**
   * Answers a host call. One body's recorded calls are passed on one after the other, in the order of their positions
   * (D5). Must not reject.
   */
  onCall: (call: HostCall) => Promise<HostAnswer>;
  /** Log lines that did not travel with a call. */
  onLogs: (lines: LogLine[]) => void;
}

/** How one run of a body ended. */
export type BodyEnd =
  /** `main` returned: its result as JSON text. Told after every recorded call of the body has been answered. */
  | { type: 'returned'; result: string; logs: LogLine[]; usage: Usage }
  /**
   * The body failed: it threw, its result is no JSON, or it met a limit. `failingPosition` is the recorded call its
   * error came from (D9), when there is one. With `treeGone` the whole cell is dead (D23: our own kill, or a crash
   * that the body caused); every other body of the run then ends as `gone`.
   */
  | {
      type: 'failed';
      error: ScriptError & { kind: ErrorKind };
      failingPosition: number | null;
      logs: LogLine[];
      usage: Usage;
      treeGone: boolean;
    }
  /** Not this body's doing: the tree was dropped, or the cell was lost (`lost`: by somebody else's kill, D23). */
  | { type: 'gone'; lost: boolean; logs: LogLine[] };

/** behaviour.md 3, "Error kinds". */
export type ErrorKind = 'USER_RUNTIME' | 'USER_NON_RUNTIME' | 'PLATFORM';
