/** Streams for our own code, which reads and makes them whatever a script does to their classes. */
import { $disturbed, ReadableStream, TransformStream, TransformStreamDefaultController, type WritableStream } from 'web-streams-polyfill';
import { apply, getOwnPropertyDescriptor } from '../intrinsics.ts';

export interface Ends {
  readable: ReadableStream;
  writable: WritableStream;
}

interface Transformer {
  transform: (chunk: unknown, enqueue: (chunk: unknown) => void) => void | Promise<void>;
  flush: (enqueue: (chunk: unknown) => void) => void | Promise<void>;
  cancel?: (reason: unknown) => void;
}

interface TransformController {
  enqueue(chunk: unknown): void;
}

/** Both ends of a transform; what its functions throw errors both. */
export function endsOf({ transform, flush, cancel }: Transformer): Ends {
  const made = new TransformStream({
    __proto__: null,
    transform: (chunk: unknown, controller: TransformController) => transform(chunk, enqueueTo(controller)),
    flush: (controller: TransformController) => flush(enqueueTo(controller)),
    cancel,
  } as object);
  return { readable: readableOf(made), writable: writableOf(made) };
}

type Getter<T> = (of: object) => T;

function getter<T>(Class: { prototype: object }, name: string): Getter<T> {
  const get = getOwnPropertyDescriptor(Class.prototype, name)?.get as () => T;
  return (of) => apply(get, of, []) as T;
}

function method<Args extends unknown[], T>(prototype: object, name: string): (self: object, ...args: Args) => T {
  const value = getOwnPropertyDescriptor(prototype, name)?.value as (...args: unknown[]) => T;
  return (self, ...args) => apply(value, self, args) as T;
}

const readableOf = getter<ReadableStream>(TransformStream, 'readable');
const writableOf = getter<WritableStream>(TransformStream, 'writable');
const lockedOf = getter<boolean>(ReadableStream, 'locked');
const enqueue = method<[unknown], void>(TransformStreamDefaultController.prototype, 'enqueue');
const enqueueTo = (controller: object) => (chunk: unknown) => enqueue(controller, chunk);

export function isReadableStream(value: unknown): value is ReadableStream {
  if (typeof value !== 'object' || value === null) return false;
  try {
    lockedOf(value);
    return true;
  } catch {
    return false;
  }
}

export const isLocked = (stream: ReadableStream) => lockedOf(stream);
/** Whether anything was ever read of it, or it was canceled. */
export const isDisturbed = (stream: ReadableStream) => Boolean((stream as unknown as Record<symbol, unknown>)[$disturbed]);
