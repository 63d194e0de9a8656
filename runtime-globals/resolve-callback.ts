import {
  defineProperty,
  getOwnPropertyDescriptor,
  hidden,
  IntrinsicError,
  indexOf,
  tryDefineProperty,
} from './intrinsics.ts';

/** Callbacks that have been called and have not settled yet. */
let underWay = 0;
/** One of them is on the stack right now. */
let onStack = false;

export const callbacksUnderWay = () => underWay;

type Callback = (payload: unknown) => unknown;

/** Runs the callback of a `resolve`. Its name marks the asynchronous stack of whatever goes on in the callback. */
export async function jobcellResolveCallback(callback: Callback, payload: unknown): Promise<unknown> {
  underWay++;
  try {
    return await callNow(callback, payload);
  } finally {
    underWay--;
  }
}

function callNow(callback: Callback, payload: unknown): unknown {
  onStack = true;
  try {
    return callback(payload);
  } finally {
    onStack = false;
  }
}

/**
 * Whether the code that runs now belongs to the callback of a `resolve`, which no replay runs again: recorded calls are
 * refused there (D10), and time and chance are real. Sure while the callback is on the stack. After an `await` or a
 * `then` of it V8's asynchronous stack tells, so that code of the body that runs meanwhile is not taken for it. What a
 * callback does in a timer, or in a promise it made by hand, is not recognised: a recorded call there ends in a
 * mismatch at the next replay.
 */
export function inResolveCallback(): boolean {
  if (underWay === 0) return false;
  return onStack || indexOf(asyncStack(), 'jobcellResolveCallback (jobcell:') !== -1;
}

/** The stack as V8 writes it, deep enough, whatever the script has made of `Error.prepareStackTrace`. */
function asyncStack(): string {
  const limit = replaceProperty('stackTraceLimit', 200);
  const prepare = replaceProperty('prepareStackTrace', undefined);
  try {
    return `${new IntrinsicError().stack}`;
  } finally {
    limit();
    prepare();
  }
}

/** @returns what puts the old value back. An `Error` that the script froze keeps its own. */
function replaceProperty(name: string, value: unknown): () => void {
  const old = getOwnPropertyDescriptor(IntrinsicError, name);
  if (!tryDefineProperty(IntrinsicError, name, hidden(value))) return () => {};
  return () => {
    if (old === undefined) delete (IntrinsicError as unknown as Record<string, unknown>)[name];
    else defineProperty(IntrinsicError, name, old);
  };
}
