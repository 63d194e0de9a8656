/** What the server and a cell send each other over IPC. */
import type { BodyLimits, BodyReplay, HostAnswer, LogLine, ScriptError, ScriptSource, Usage } from './protocol.ts';
import type { ErrorKind, ScriptCheck } from './sandbox.ts';

export type ToCell =
  /** The cell kills itself when the clock of `monotonicMs` reaches this (D4). */
  | { t: 'deadline'; at: number }
  | {
      t: 'run';
      body: number;
      script: ScriptSource;
      args: string;
      context: string;
      limits: BodyLimits;
      replay: BodyReplay | null;
    }
  | { t: 'source'; hash: string; text: string | null }
  | { t: 'sourceMap'; body: number; text: string | null }
  | { t: 'answer'; body: number; call: number; answer: HostAnswer }
  /** Ends every isolate without a word to its script; answered by `idle`. */
  | { t: 'reset' }
  | { t: 'check'; source: string; memoryMb: number };

export type FromCell =
  | { t: 'ready' }
  | { t: 'needSource'; hash: string; body: number }
  | { t: 'needSourceMap'; body: number }
  | {
      t: 'call';
      body: number;
      call: number;
      op: string;
      args: string;
      payload: string | null;
      /** Two calls may have one position: the second goes on with what the first began. */
      position: number | null;
      clock: number[];
      /** The isolate stands still until the answer. */
      blocking: boolean;
      logs: LogLine[];
    }
  | { t: 'logs'; body: number; lines: LogLine[] }
  /** A limit is passed and the isolate is being ended; if that takes too long, the server kills the cell. */
  | { t: 'over'; body: number; error: CodedError; usage: Usage; graceMs: number }
  | { t: 'end'; body: number; end: CellBodyEnd; logs: LogLine[]; usage: Usage }
  | { t: 'checked'; check: ScriptCheck }
  | { t: 'beat' }
  | { t: 'idle' };

export type CodedError = ScriptError & { kind: ErrorKind };

export type CellBodyEnd =
  | { type: 'returned'; result: string }
  | { type: 'failed'; error: CodedError; failingPosition: number | null };

/** Milliseconds of the machine's monotonic clock, which a server and its cells share. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
