import { defineProperty, getOwnPropertyDescriptor, hidden, IntrinsicError, tryDefineProperty } from './intrinsics.ts';

/** The stack of this moment as V8 writes it, whatever the script has made of `Error.prepareStackTrace`. */
export function stackHere(frames: number): string {
  const limit = replaceProperty('stackTraceLimit', frames);
  try {
    return stackOf(new IntrinsicError());
  } finally {
    limit();
  }
}

/** Likewise, of an error of ours whose stack nobody has asked for yet: V8 writes it then. */
export function stackOf(error: Error): string {
  const prepare = replaceProperty('prepareStackTrace', undefined);
  try {
    return `${error.stack}`;
  } finally {
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
