import { ReadableStream, type ReadableStreamDefaultReader, type ReadableStreamReadResult } from 'node:stream/web';
import { setImmediate } from 'node:timers/promises';
import { type Dispatcher, fetch, type Response } from 'undici';
import { limits } from '../limits.ts';
import type { ConnectionSlots } from './connection-slots.ts';
import { FetchTimeoutError } from './fetch-errors.ts';

export interface Outgoing {
  url: URL;
  method: string;
  headers: [name: string, value: string][];
  redirect: 'follow' | 'error' | 'manual';
  /** `stream`: its bytes come by `write`. */
  body: Uint8Array | 'stream' | null;
}

export interface ExchangeOptions {
  slots: ConnectionSlots;
  dispatcher: (origin: string) => Dispatcher;
  /** Ends the exchange: the body of the script that asked for it has ended, or its whole run. */
  signal: AbortSignal;
  timeoutMs: number;
}

type Chunk = ReadableStreamReadResult<Uint8Array>;

/** Chunks that one read takes together, and bytes from which on the first one is not copied. */
const mostChunks = 256;
const wholeBytes = 4 * 1024;

/** One request and its response. It holds a connection until its body is read to the end, or it is ended. */
export class Exchange {
  readonly #options: ExchangeOptions;
  readonly #abort = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #onSignal = () => this.end();
  #giveBack = () => {};
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  /** Asked for already, and not handed out. */
  #next: Promise<Chunk> | undefined;
  readonly #upload = new PieceByPiece();

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#timer = setTimeout(() => this.end(new FetchTimeoutError(options.timeoutMs)), options.timeoutMs);
    options.signal.addEventListener('abort', this.#onSignal);
    if (options.signal.aborted) this.end();
  }

  /** Sends the request, once a connection is free. Rejects with whatever went wrong; the exchange is ended then. */
  async send({ url, body, ...request }: Outgoing): Promise<Response> {
    const { signal } = this.#abort;
    try {
      this.#giveBack = await this.#options.slots.take(signal);
      const dispatcher = this.#options.dispatcher(url.origin);
      const init = { ...request, signal, dispatcher };
      const response = await (body === 'stream'
        ? fetch(url, { ...init, body: this.#upload.stream, duplex: 'half' })
        : fetch(url, { ...init, body }));
      this.#reader = response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array> | undefined;
      return response;
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /**
   * Hands on the next piece of the request's body, null after the last. Resolves once the other side takes it, so that no
   * more than one waits in here: false when nobody will.
   */
  write(piece: Uint8Array | null): Promise<boolean> {
    return this.#upload.write(piece);
  }

  /** What is there of the body without waiting for it: what came along with the head. */
  async readNow(): Promise<{ bytes: Buffer; done: boolean }> {
    this.#next ??= this.#ask();
    const first = await this.#soon(this.#next);
    return first === undefined ? { bytes: Buffer.alloc(0), done: false } : this.read();
  }

  /**
   * The next bytes of the body: what comes first and what is there by then, up to `fetchChunkBytes` or a little more. One
   * chunk may be read ahead; beyond that the sender waits until the script wants more. `done`: that was all, and the
   * exchange is ended. Rejects as `send` does.
   */
  async read(): Promise<{ bytes: Buffer; done: boolean }> {
    const all = new Collected();
    try {
      for (let chunk = await this.#take(); ; chunk = await this.#take()) {
        if (chunk.done) {
          this.end();
          return { bytes: all.bytes(), done: true };
        }
        all.add(chunk.value);
        if (all.full) break;
        this.#next ??= this.#ask();
        // A failure is told by the next read, after what came before it.
        if (typeof (await this.#soon(this.#next)) !== 'object') break;
      }
    } catch (error) {
      this.end();
      throw error;
    }
    return { bytes: all.bytes(), done: false };
  }

  #take(): Promise<Chunk> {
    const next = this.#next ?? this.#ask();
    this.#next = undefined;
    return next;
  }

  #ask(): Promise<Chunk> {
    return this.#reader?.read() ?? Promise.resolve({ value: undefined, done: true });
  }

  /** The chunk, or undefined when it is not there yet. One that fails is there. */
  async #soon(next: Promise<Chunk>): Promise<Chunk | 'failed' | undefined> {
    return Promise.race([next.catch(() => 'failed' as const), setImmediate(undefined)]);
  }

  /** Closes the connection if it is still in use, and gives it back. */
  end(reason?: Error): void {
    clearTimeout(this.#timer);
    this.#options.signal.removeEventListener('abort', this.#onSignal);
    this.#abort.abort(reason);
    this.#upload.end();
    this.#giveBack();
  }
}

/** A sender may make chunks of one byte: they are copied together, since each costs a hundred times what it holds. */
class Collected {
  #buffer: Buffer = Buffer.alloc(0);
  #size = 0;
  #chunks = 0;

  get full(): boolean {
    return this.#size >= limits.fetchChunkBytes || this.#chunks >= mostChunks;
  }

  add(chunk: Uint8Array): void {
    this.#chunks++;
    // Whole, as nearly all come.
    if (this.#size === 0 && chunk.byteLength >= wholeBytes) {
      this.#buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    } else {
      if (this.#size + chunk.byteLength > this.#buffer.length) this.#grow(this.#size + chunk.byteLength);
      this.#buffer.set(chunk, this.#size);
    }
    this.#size += chunk.byteLength;
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  #grow(size: number): void {
    const larger = Buffer.allocUnsafe(Math.max(size, 2 * this.#buffer.length));
    this.#buffer.copy(larger, 0, 0, this.#size);
    this.#buffer = larger;
  }
}

/** A stream whose pieces are written from outside, each once it is wanted. */
class PieceByPiece {
  #wanted = Promise.withResolvers<boolean>();
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #pulled = Promise.withResolvers<void>();
  #ended = false;

  readonly stream = new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        this.#controller = controller;
      },
      pull: () => {
        this.#pulled = Promise.withResolvers();
        this.#wanted.resolve(true);
        return this.#pulled.promise;
      },
      cancel: () => this.end(),
    },
    { highWaterMark: 0 },
  );

  async write(piece: Uint8Array | null): Promise<boolean> {
    const wanted = await this.#wanted.promise;
    if (!wanted || this.#ended) return false;
    this.#wanted = Promise.withResolvers();
    if (piece === null) {
      this.#ended = true;
      this.#controller?.close();
    } else {
      this.#controller?.enqueue(piece);
    }
    this.#pulled.resolve();
    return true;
  }

  /** Nobody takes anything any more. */
  end(): void {
    this.#ended = true;
    this.#wanted.resolve(false);
    this.#pulled.resolve();
  }
}
