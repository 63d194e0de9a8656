import type { IsolateCode } from '../src/sandbox/boundary.ts';
import type { ScriptError } from '../src/sandbox/protocol.ts';
import { bundle } from './bundles.ts';
import {
  append,
  defineProperty,
  errorConstructors,
  hidden,
  IntrinsicError,
  IntrinsicTypeError,
  isArray,
  isError,
  weakGet,
  weakSet,
} from './intrinsics.ts';

/** Where an error that the host gave to the script came from. */
interface Origin {
  position: number | null;
  /** Mapped where it was thrown; as long as the script leaves it alone, it must not be mapped again. */
  stack: string;
  /** Of an error we made. Kept here, since the script can write to the error's own `code`. */
  code: string | undefined;
}

const origins = new WeakMap<object, unknown>();

/** An error of this isolate as the host describes it: the failed job function's own, or one of ours. */
export function errorFromHost(error: ScriptError, position: number | null): Error {
  const Constructor = errorConstructors[error.name] ?? IntrinsicError;
  const made = new Constructor(error.message);
  defineProperty(made, 'name', hidden(error.name));
  // An error of the platform's own has none: then it is the call's, so that its author sees the line.
  if (error.stack !== '') defineProperty(made, 'stack', hidden(error.stack));
  if (error.code !== undefined) defineProperty(made, 'code', hidden(error.code));
  weakSet(origins, made, { position, stack: error.stack, code: error.code } satisfies Origin);
  return made;
}

/** An error of ours that a call throws before it leaves the isolate. */
export function codedError(
  code: IsolateCode,
  message: string,
  Constructor: ErrorConstructor | TypeErrorConstructor = IntrinsicError,
): Error {
  const made = new Constructor(message);
  defineProperty(made, 'code', hidden(code));
  weakSet(origins, made, { position: null, stack: '', code } satisfies Origin);
  return made;
}

export function domException(name: string, message: string): Error {
  return new (bundle('events').DOMException)(message, name) as Error;
}

/** Remembers that an error of the script's own failed a recorded call, unless it came from another one (D9). */
export function failedCall(thrown: unknown, position: number | null): void {
  if (typeof thrown !== 'object' || thrown === null || weakGet(origins, thrown) !== undefined) return;
  weakSet(origins, thrown, { position, stack: '', code: undefined } satisfies Origin);
}

/** Of errors whose message has a fixed wording that programs look for: what it says, and the sentence that people need. */
const sentences = new WeakMap<object, unknown>();
interface Worded {
  message: string;
  sentence: string;
}

/** A TypeError that is reported with a sentence once it has left the script, where nobody sees its cause. */
export function wordedError(message: string, sentence: string): Error {
  const made = typeError(message);
  weakSet(sentences, made, { message, sentence } satisfies Worded);
  return made;
}

/** The message to report, unless the script has written one of its own. */
export function reportedMessage(thrown: unknown, message: string): string {
  if (!isError(thrown)) return message;
  const worded = weakGet(sentences, thrown as object) as Worded | undefined;
  return worded?.message === message ? `${message}: ${worded.sentence}` : message;
}

export function typeError(message: string): Error {
  return new IntrinsicTypeError(message);
}

/** Whether the error's stack is the one the host gave it. */
export function isMapped(thrown: unknown, stack: string): boolean {
  if (!isError(thrown)) return false;
  const origin = weakGet(origins, thrown as object) as Origin | undefined;
  return origin !== undefined && stack !== '' && origin.stack === stack;
}

/** Code of an error made by us; a `code` of the script's own means nothing. */
export function codeOf(thrown: unknown): string | undefined {
  if (!isError(thrown)) return undefined;
  return (weakGet(origins, thrown as object) as Origin | undefined)?.code;
}

/**
 * The position of the recorded call that an error came from (D9): the error itself, its causes, and the errors of an
 * AggregateError. Looks at 100 errors at most, since a script can build an endless chain.
 */
export function failingPosition(thrown: unknown): number | null {
  const queue: unknown[] = [];
  append(queue, thrown);
  for (let i = 0; i < queue.length && i < 100; i++) {
    const error = queue[i];
    if (typeof error !== 'object' || error === null) continue;
    const origin = weakGet(origins, error) as Origin | undefined;
    if (origin !== undefined && origin.position !== null) return origin.position;
    try {
      const { cause, errors } = error as { cause?: unknown; errors?: unknown };
      append(queue, cause);
      if (isArray(errors)) for (let e = 0; e < errors.length && e < 100; e++) append(queue, errors[e] as unknown);
    } catch {
      // A getter of the script's that throws hides what is behind it.
    }
  }
  return null;
}
