import type { Usage } from '../sandbox/protocol.ts';
import type { Stack } from '../store/steps.ts';
import type { MadeCall } from './replay.ts';

/** One frame of a run's stack: a job function that runs, or is blocked in a call. */
export interface Body {
  /** `main-job`, `main-job/0:fetchData`: tells calls of one name apart (http-api.md). */
  path: string;
  /** `main-job/fetchData`, as people read it (behaviour.md 3). */
  stackedName: string;
  /** The call that started it; main's is the start of the execution. */
  call: MadeCall;
  parent: Body | null;
  /** Its place in the stack, main's is 1. */
  frame: number;
  /** The execution policy keys of the stack up to here, each once (D17). */
  keys: string[];
  /** How many recorded calls it has made in this run. */
  calls: number;
  /** The run of it that was committed to start; null before that. */
  ran: { path: string; run: number; usage: Usage | null; failingPosition: number | null } | null;
  /** Resolves when the calls it made so far are handled. Never rejects. */
  pending: Promise<void>;
}

/** The path of the call at a position of a body. */
export const childPath = (bodyPath: string, position: number, name: string) => `${bodyPath}/${position}:${name}`;

/** What a stack holds while this body is its last; nothing, for the stack below main (D17). */
export const stackOf = (body: Body | null): Stack =>
  body ? { frames: body.frame, keys: body.keys } : { frames: 0, keys: [] };
