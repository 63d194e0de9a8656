import { indexOf } from './intrinsics.ts';
import { stackHere } from './stack.ts';

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
 * Whether the code that runs now is known to belong to the callback of a `resolve`: it is on the stack, or V8's
 * asynchronous stack leads to it. That follows `await` and `then`, but no timer, no promise made by hand, and no
 * `return promise` of an async function. Recorded calls are refused by this (D10): one that is not recognised ends in a
 * mismatch at the next replay, whereas a refusal of what the body does meanwhile would break a right script at random.
 */
export function inResolveCallback(): boolean {
  if (underWay === 0) return false;
  return onStack || indexOf(stackHere(200), callbackMark) !== -1;
}

/**
 * Whether a replay does not run again what runs now: the callback of a `resolve`, or, while one is under way, whatever
 * cannot be told to be the body's. Time and chance are real in it and leave no trace, so the body sees the same of both
 * after its `resolve`, with the callback and without.
 */
export function outsideOfReplay(): boolean {
  if (underWay === 0) return false;
  if (onStack) return true;
  const stack = stackHere(200);
  return indexOf(stack, callbackMark) !== -1 || indexOf(stack, 'jobcellMain (jobcell:') === -1;
}

const callbackMark = 'jobcellResolveCallback (jobcell:';
