/** Streams for our own code, which reads and makes them whatever a script does to their classes. */
import {
  $disturbed,
  ReadableByteStreamController,
  ReadableStream,
  ReadableStreamBYOBRequest,
  ReadableStreamDefaultReader,
  TransformStream,
  TransformStreamDefaultController,
  type WritableStream,
} from 'web-streams-polyfill';
import { bundle } from '../bundles.ts';
import { apply, getOwnPropertyDescriptor, IntrinsicUint8Array, promiseThen, weakGet, weakSet } from '../intrinsics.ts';

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

interface ByteSource {
  /** The next bytes, null at the end. */
  pull: () => Uint8Array | null | Promise<Uint8Array | null>;
  cancel?: (reason: unknown) => void | Promise<void>;
}

/** A byte stream that asks for bytes when somebody reads. */
export function byteStream({ pull, cancel }: ByteSource): ReadableStream {
  const source = {
    __proto__: null,
    type: 'bytes',
    async pull(controller: ByteController): Promise<void> {
      const next = await pull();
      if (next !== null) {
        enqueueBytes(controller, next);
        return;
      }
      closeBytes(controller);
      // Whoever waits with a buffer of their own gets it back.
      const request = byobRequest(controller);
      if (request !== null) respond(request, 0);
    },
    cancel,
  };
  return new ReadableStream(source as object, { highWaterMark: 0 });
}

type ByteController = object;
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
const enqueueBytes = method<[Uint8Array], void>(ReadableByteStreamController.prototype, 'enqueue');
const closeBytes = method<[], void>(ReadableByteStreamController.prototype, 'close');
const byobRequest = getter<object | null>(ReadableByteStreamController, 'byobRequest');
const respond = method<[number], void>(ReadableStreamBYOBRequest.prototype, 'respond');
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
export const isDisturbed = (stream: ReadableStream) =>
  Boolean((stream as unknown as Record<symbol, unknown>)[$disturbed]);

const getReader = method<[], ReadableStreamDefaultReader>(ReadableStream.prototype, 'getReader');
const readNext = method<[], Promise<{ value: unknown; done: boolean }>>(ReadableStreamDefaultReader.prototype, 'read');
const cancelReader = method<[unknown], Promise<void>>(ReadableStreamDefaultReader.prototype, 'cancel');
const cancelStream = method<[unknown], Promise<void>>(ReadableStream.prototype, 'cancel');
const pipeThrough = method<[Ends], ReadableStream>(ReadableStream.prototype, 'pipeThrough');
const teeStream = method<[], ReadableStream[]>(ReadableStream.prototype, 'tee');

export const tee = (stream: ReadableStream) => teeStream(stream);

/** Locks a stream and reads it chunk by chunk; null is its end. */
export function chunkReader(stream: ReadableStream): () => Promise<unknown> {
  const reader = getReader(stream);
  weakSet(readers, stream, reader);
  return async () => {
    const { value, done } = await readNext(reader);
    return done ? null : value;
  };
}

/** Who reads a stream for us. */
const readers = new WeakMap<object, unknown>();

/** Cancels a stream that `chunkReader` reads. */
export function cancelTaken(stream: ReadableStream, reason: unknown): void {
  const reader = weakGet(readers, stream) as object | undefined;
  if (reader !== undefined) forget(cancelReader(reader, reason));
}

/** Makes a stream one that was read to its end, by a reader that keeps it. */
export function exhaust(stream: ReadableStream): void {
  forget(cancelStream(stream, undefined));
  getReader(stream);
}

/** A stream with what is in another one, which nobody else can read any more. */
export const movedTo = (stream: ReadableStream) =>
  pipeThrough(stream, endsOf({ transform: (chunk, enqueue) => enqueue(chunk), flush: nothing }));

/** Bytes as text in UTF-8. */
export function decodedText(stream: ReadableStream): ReadableStream {
  const decoder = bundle('encoding').decoderFor('utf-8', undefined);
  const decode = (bytes: Uint8Array, more: boolean, enqueue: (chunk: unknown) => void) => {
    const text = decoder.decode(bytes, more);
    if (text !== '') enqueue(text);
  };
  const ends = endsOf({
    transform: (chunk, enqueue) => decode(chunk as Uint8Array, true, enqueue),
    flush: (enqueue) => decode(new IntrinsicUint8Array(0), false, enqueue),
  });
  return pipeThrough(stream, ends);
}

/** A stream with clones of the chunks of another one, so that who reads the branches of a stream shares no buffers. */
export const withClonedChunks = (stream: ReadableStream) =>
  pipeThrough(
    stream,
    endsOf({ transform: (chunk, enqueue) => enqueue(bundle('clone').structuredClone(chunk)), flush: nothing }),
  );

/** Nobody waits for it, and its failure is no news. */
function forget(promise: Promise<unknown>): void {
  promiseThen(promise, nothing, nothing);
}

const nothing = () => {};
