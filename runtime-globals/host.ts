import { limits } from '../src/limits.ts';
import { answerError, answerFatal, answerUndefined, type Failure, type Outward } from '../src/sandbox/boundary.ts';
import type { ScriptError } from '../src/sandbox/protocol.ts';
import { codedError, errorFromHost } from './errors.ts';
import {
  IntrinsicError,
  IntrinsicMap,
  IntrinsicPromise,
  indexOf,
  isRangeError,
  mapDelete,
  mapGet,
  mapSet,
  parseJson,
  promiseThen,
  sleep,
  slice,
  stringifyJson,
} from './intrinsics.ts';
import { callbacksUnderWay, inResolveCallback } from './resolve-callback.ts';
import { stackHere, stackOf } from './stack.ts';
import { storable } from './text.ts';

/** The cell's one function, as isolated-vm hands it in. It never leaves this module (rule S3). */
export interface HostReference {
  applySync(receiver: undefined, message: Outward): unknown;
  applySyncPromise(receiver: undefined, message: Outward): unknown;
  applyIgnored(receiver: undefined, message: Outward): void;
}

/** isolated-vm's handles of this very isolate, for as long as a script of ours is compiled. Likewise. */
interface BundleParts {
  isolate: {
    compileScriptSync(
      text: string,
      options: object,
    ): { runSync(context: unknown, options: object): { deref(): unknown } };
  };
  context: unknown;
  text: string;
  filename: string;
  cachedData: unknown;
}

interface Pending {
  resolve: (value: unknown) => void;
  reject: (reason: unknown) => void;
  position: number | null;
  /** Made at a recorded call: its stack is only written if it is needed. */
  at: Error | undefined;
}

let host: HostReference;
/** Why host calls are refused, while they are. */
let refusal: string | undefined;
let contextText = '{}';
/** Positions are given at the call, in program order (D5). */
let nextPosition = 0;
let nextId = 0;
/** The readings of the clock since the last recorded call, where they are kept (D12). */
let takeClock: (segment: number) => string = () => '';
let outstanding = 0;
const pending = new IntrinsicMap<unknown, unknown>();

export function connect(reference: HostReference): void {
  host = reference;
}

export function open(context: string, refuse: string | undefined): void {
  contextText = context;
  refusal = refuse;
}

/** From here on every host call is refused (D34). */
export function refuse(reason: string): void {
  refusal = reason;
}

/** From here on recorded calls carry the readings of the clock before them. */
export function keepClock(take: (segment: number) => string): void {
  takeClock = take;
}

/** How many recorded calls the body has made: the segment that its code is in now (D12, D13). */
export const currentSegment = () => nextPosition;
export const context = () => parseJson(contextText) as { invoker?: unknown };

/** What a call hands on: its operation, JSON text of its arguments, and JSON text of its payload. */
export interface Call {
  op: string;
  args: string;
  payload: string | null;
  recorded: boolean;
}

/** Where a call stands among the recorded calls of its body, and the readings of the clock before it. */
export interface Place {
  position: number | null;
  clock: string;
  /** The cell knows of it, so it cannot be given back any more. */
  taken: boolean;
}

const unrecorded: Place = { position: null, clock: '', taken: true };

function admit(call: Call): Place {
  if (refusal !== undefined) throw codedError('CALL_NOT_ALLOWED', `${call.op} is refused: ${refusal}`);
  if (!call.recorded) return unrecorded;
  // D10: a replay does not run the callback again, so it would not make the call again either.
  if (inResolveCallback()) {
    throw codedError(
      'CALL_NOT_ALLOWED',
      `${call.op} is not allowed inside the callback of tailor.workflow.resolve: call it before or after resolve.`,
    );
  }
  const clock = takeClock(nextPosition);
  return { position: nextPosition++, clock, taken: false };
}

/**
 * A host call that looks synchronous: the isolate stands still until it is answered. A call that
 * did not leave, since the script's stack is full, gives its position back (without a call, on that stack): the server
 * waits for each position. @throws the answer's error.
 */
export function callBlocking(call: Call): unknown {
  const { position, clock } = admit(call);
  let text: unknown;
  try {
    text = host.applySyncPromise(undefined, ['block', call.op, call.args, call.payload, position, clock]);
  } catch (error) {
    if (position !== null) nextPosition = position;
    throwOrHalt(error);
  }
  // A living body is always answered; in one that is being disposed no catch or finally of the script may run (D22).
  return typeof text === 'string' ? settle(text, position) : halt();
}

/** A host call that goes on in the background. @throws when it is refused or too many are under way. */
export function callAsync(call: Call): Promise<unknown> {
  return sendCall(call, admitAsync(call));
}

/** The cell does one after the other anyway. */
const localCallsAtOnce = 8;
let localCalls = 0;
/** Calls that wait for their turn in here, where they are the memory of the script that makes them. */
interface Waiting {
  start: () => void;
  next: Waiting | undefined;
}
let firstWaiting: Waiting | undefined;
let lastWaiting: Waiting | undefined;

/** A call that the cell answers itself. However many a script makes, it is never refused for that. @param args JSON text of a list */
export function callLocal(op: string, args: string): Promise<unknown> {
  admit({ op, args, payload: null, recorded: false });
  return new IntrinsicPromise((resolve, reject) => {
    const start = () => {
      localCalls++;
      const answered = awaitAnswer(null, undefined, (id) => send(['local', id, op, args]));
      promiseThen(answered, resolve, reject);
      promiseThen(answered, startNext, startNext);
    };
    if (localCalls < localCallsAtOnce) {
      start();
      return;
    }
    const waiting: Waiting = { start, next: undefined };
    if (lastWaiting === undefined) firstWaiting = waiting;
    else lastWaiting.next = waiting;
    lastWaiting = waiting;
  });
}

function startNext(): void {
  localCalls--;
  const next = firstWaiting;
  if (next === undefined) return;
  firstWaiting = next.next;
  if (firstWaiting === undefined) lastWaiting = undefined;
  next.start();
}

/** Gives an asynchronous call its place; `sendCall` has to follow at once. */
export function admitAsync(call: Call): Place {
  if (outstanding + callbacksUnderWay() >= limits.outstandingHostCalls) {
    throw codedError(
      'CALL_NOT_ALLOWED',
      `${call.op}: ${limits.outstandingHostCalls} host calls are under way already; await some of them first.`,
    );
  }
  return admit(call);
}

/** Sends a call at its place: also the one that goes on with an earlier, answered call of that place. */
export function sendCall(call: Call, place: Place, failure?: string): Promise<unknown> {
  const { position, clock } = place;
  try {
    const at = position === null ? undefined : new IntrinsicError();
    return awaitAnswer(position, at, (id) => {
      send(['call', id, call.op, call.args, call.payload, position, clock, failure]);
      place.taken = true;
    });
  } finally {
    if (!place.taken && position !== null) nextPosition = position;
  }
}

/** The promise of an answer to what `sendIt` sends under the number that it gets. */
function awaitAnswer(position: number | null, at: Error | undefined, sendIt: (id: number) => void): Promise<unknown> {
  const id = nextId++;
  const promise = new IntrinsicPromise((resolve, reject) => {
    mapSet(pending, id, { resolve, reject, position, at } satisfies Pending);
  });
  sendIt(id);
  outstanding++;
  return promise;
}

/** A full stack is the script's own affair; anything else says that the isolate is being disposed. */
function throwOrHalt(error: unknown): never {
  if (isRangeError(error)) throw error;
  return halt();
}

/** The cell's answer to an earlier `callAsync`. */
export function answer(id: number, text: string): void {
  const waiting = mapGet(pending, id) as Pending | undefined;
  if (waiting === undefined) return;
  mapDelete(pending, id);
  outstanding--;
  let value: unknown;
  try {
    value = settle(text, waiting.position, waiting.at);
  } catch (error) {
    waiting.reject(error);
    return;
  }
  waiting.resolve(value);
}

function settle(text: string, position: number | null, at?: Error): unknown {
  const kind = text[0];
  if (kind === answerUndefined) return undefined;
  const value = parseJson(slice(text, 1)) as unknown;
  if (kind === answerFatal) return endHere(value as ScriptError, at);
  if (kind === answerError) throw errorFromHost(value as ScriptError, position);
  return value;
}

/** Frames of the stack that an end at a call shows. */
const shownFrames = 50;

/**
 * Ends the body at a call: with the stack of the call, and without any `catch` or `finally` of the script.
 * @param at made at the call, where that is not the code that runs now.
 */
function endHere({ name, message, code }: ScriptError, at: Error | undefined): never {
  let stack = '';
  try {
    const written = at === undefined ? stackHere(shownFrames) : stackOf(at);
    const first = indexOf(written, '\n    at ');
    if (first !== -1) stack = storable(`${name}: ${message}${slice(written, first)}`, limits.errorStackBytes);
  } catch {
    // No room on the stack, or an `Error` that the script has frozen: then there is none.
  }
  const failure = { __proto__: null, name, message, stack, mapped: false, position: null, threw: false, code };
  return sendLast(['failed', stringifyJson(failure as Failure)]);
}

/** Hands a message to the cell and waits until it has it, so that no script can fill the cell's queue. */
export function send(message: Outward): void {
  let taken: unknown;
  try {
    taken = host.applySync(undefined, message);
  } catch (error) {
    throwOrHalt(error);
  }
  if (taken !== true) halt();
}

/** Asks the cell for what it can tell at once. */
export function ask(message: Outward): string {
  let text: unknown;
  try {
    text = host.applySync(undefined, message);
  } catch (error) {
    throwOrHalt(error);
  }
  return typeof text === 'string' ? text : halt();
}

/** Compiles a further script of runtime globals right here: code of ours, of which no microtask of the script's sees anything. */
export function loadBundle(name: string): (shared: object) => unknown {
  let parts: unknown;
  try {
    parts = host.applySync(undefined, ['globals', name]);
  } catch (error) {
    throwOrHalt(error);
  }
  if (typeof parts !== 'object') return halt();
  const { isolate, context, text, filename, cachedData } = parts as BundleParts;
  const script = isolate.compileScriptSync(text, { __proto__: null, filename, cachedData });
  return script.runSync(context, { __proto__: null, reference: true }).deref() as (shared: object) => unknown;
}

/** The last message of a body: no code of the script runs after it. */
export function sendLast(message: Outward): never {
  try {
    host.applySyncPromise(undefined, message);
  } catch {
    // Falls through to the same end.
  }
  return halt();
}

/** Hands a message over without waiting; its sender bounds how many there are. */
export function sendIgnored(message: Outward): void {
  host.applyIgnored(undefined, message);
}

/**
 * Stands still until the isolate is disposed. It says so, because V8 loses the interrupt that ends a script when it comes
 * while the script's thread waits in a host call: the cell disposes an isolate only while it runs.
 */
function halt(): never {
  sendIgnored(['halting']);
  for (;;) sleep();
}
