/**
 * What crosses between an isolate and its cell: primitives only (rule S3). Shared with runtime-globals.
 * Every message is the list of arguments of the ONE function of the cell that an isolate's boot code holds.
 */
import type { ErrorCode } from '../errors.ts';
import type { LogLevel } from './protocol.ts';

/**
 * From the isolate to the cell. The answer is true for what is only handed over and a text for what blocks or asks (but
 * for `globals`); anything else tells the isolate to halt.
 */
export type Outward =
  /** A log line, already bounded and storable. `attributes` is JSON text. */
  | [kind: 'log', level: LogLevel, at: number, message: string, attributes: string | undefined]
  /** A host call whose answer comes later, by `['answer', id, ...]`. */
  | [kind: 'call', id: number, ...call: OutwardCall]
  /** A host call that blocks the isolate until it is answered. */
  | [kind: 'block', ...call: OutwardCall]
  /** A call that the cell answers itself, later, by `['answer', id, ...]`. `args` is JSON text of a list. */
  | [kind: 'local', id: number, op: string, args: string]
  /** The readings of the clock before a recorded call of an earlier run (D12); answered at once by `1700000000000,...`. */
  | [kind: 'clock', segment: number]
  /** `chanceBlockBytes` bytes of a segment's chance (D13), or with null of the machine's; answered at once by a text of one character a byte. */
  | [kind: 'chance', segment: number | null, block: number]
  /**
   * Converts between encodings, answered at once: 'v' and the text, the bytes in base64, or JSON text of a list of names;
   * or 'e' and what is wrong. `data` is base64 to decode, and text to encode.
   */
  | [kind: 'iconv', operation: IconvOperation, encoding: string, data: string]
  /** A domain in Unicode; answered at once by its form in ASCII (UTS 46), or by an empty text where it has none. */
  | [kind: 'domain', domain: string]
  /** The text of a URL; answered at once by the parsed one, after `v`, or `c` where it has a user name or a password; empty: it is none. */
  | [kind: 'url', url: string]
  /** Asks for a script of runtime globals by name; answered at once by what the isolate needs to compile it in its own context. */
  | [kind: 'globals', name: string]
  /** Asks for one `['tick']` after so many milliseconds; replaces an earlier one. */
  | [kind: 'wake', ms: number]
  /** `main` returned: the result as JSON text. Answered when the isolate is to halt. */
  | [kind: 'returned', result: string]
  /** The body failed: a `Failure` as JSON text; answered likewise. */
  | [kind: 'failed', failure: string]
  /** The isolate stands still, running, and can be disposed. */
  | [kind: 'halting'];

/**
 * `clock` holds the readings since the last recorded call, separated by commas. `failure` tells that the script's own
 * part in the call failed: a `Failure` as JSON text, which becomes the last of the arguments, `{ error }`.
 */
export type OutwardCall = [
  op: string,
  args: string,
  payload: string | null,
  position: number | null,
  clock: string,
  failure?: string | undefined,
];

export type IconvOperation = 'decode' | 'encode' | 'encodings';

export const chanceBlockBytes = 4_096;

/** From the cell to the isolate. */
export type Inward =
  /**
   * Before the script is evaluated: JSON text of what `tailor.context` answers, why host calls are refused, if they are,
   * and how many recorded calls earlier runs of the body have made, undefined when nothing of it is ever replayed.
   */
  | [kind: 'open', context: string, refusal: string | undefined, recorded: number | undefined]
  /** Finds `main` and runs it. `namespace` is the module's, undefined for a script. */
  | [kind: 'start', args: string, namespace: unknown]
  /** What the evaluated script has for a `main`: answered by a MainKind. */
  | [kind: 'mainKind', namespace: unknown]
  /** The answer to `['call', ...]`, in the form that `encodeAnswer` gives it. */
  | [kind: 'answer', id: number, answer: string]
  | [kind: 'tick'];

/** What a script has for a `main`; only a function can be run. */
export type MainKind = 'function' | keyof typeof mainProblems;

/** Why there is nothing to run. */
export const mainProblems = {
  none: 'The script has no main: export a function named main, export a default function, or set globalThis.main to a function.',
  generator:
    'main is a generator function, which does not run when it is called: make it a function or an async function.',
  class: 'main is a class, which cannot be called: make it a function or an async function.',
} as const;

/** How a body failed, as the isolate sees it; bounded and storable (D33). */
export interface Failure {
  name: string;
  message: string;
  stack: string;
  code?: string;
  /** The stack came from another body and is mapped already. */
  mapped: boolean;
  /** The recorded call the error came from (D9). */
  position: number | null;
  /** The script threw; false when it has no `main`, or its result is too large. */
  threw: boolean;
}

/** Codes of what the runtime globals themselves throw; any other code reaches an isolate in an answer first. */
export const isolateCodes = [
  'BAD_REQUEST',
  'CALL_NOT_ALLOWED',
  'INVALID_SCRIPT',
  'PAYLOAD_TOO_LARGE',
  'RESULT_NOT_SERIALIZABLE',
  'WORKFLOW_NOT_FOUND',
] as const satisfies ErrorCode[];
export type IsolateCode = (typeof isolateCodes)[number];

/** First character of an answer's text: the rest is JSON text, of the value or of a ScriptError. */
export const answerValue = 'v';
export const answerUndefined = 'u';
export const answerError = 'e';
/** A ScriptError that ends the body at the call, and that no code of the script sees. */
export const answerFatal = 'f';
