import type { ReadableStreamDefaultReader } from 'node:stream/web';
import { type Dispatcher, fetch, type Response } from 'undici';
import { limits } from '../limits.ts';
import type { ConnectionSlots } from './connection-slots.ts';
import { FetchTimeoutError } from './fetch-errors.ts';

export interface Outgoing {
  url: URL;
  method: string;
  headers: [name: string, value: string][];
  redirect: 'follow' | 'error' | 'manual';
  body: Uint8Array | string | null;
}

export interface ExchangeOptions {
  slots: ConnectionSlots;
  dispatcher: (origin: string) => Dispatcher;
  /** Ends the exchange: the body of the script that asked for it has ended, or its whole run. */
  signal: AbortSignal;
  timeoutMs: number;
}

/** One request and its response. It holds a connection until its body is read to the end, or it is ended. */
export class Exchange {
  readonly #options: ExchangeOptions;
  readonly #abort = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #onSignal = () => this.end();
  #giveBack = () => {};
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#timer = setTimeout(() => this.end(new FetchTimeoutError(options.timeoutMs)), options.timeoutMs);
    options.signal.addEventListener('abort', this.#onSignal);
    if (options.signal.aborted) this.end();
  }

  /** Sends the request, once a connection is free. Rejects with whatever went wrong; the exchange is ended then. */
  async send({ url, ...request }: Outgoing): Promise<Response> {
    const { signal } = this.#abort;
    try {
      this.#giveBack = await this.#options.slots.take(signal);
      const dispatcher = this.#options.dispatcher(url.origin);
      const response = await fetch(url, { ...request, signal, dispatcher });
      this.#reader = response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array> | undefined;
      return response;
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /**
   * The next bytes of the body: `fetchChunkBytes` or a little more, fewer only at its end. Nothing is read ahead, so the
   * sender waits until the script wants more. `done`: that was all; the exchange is ended then. Rejects as `send` does.
   */
  async read(): Promise<{ bytes: Buffer; done: boolean }> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    try {
      while (size < limits.fetchChunkBytes) {
        const next = await this.#reader?.read();
        if (next === undefined || next.done) {
          this.end();
          return { bytes: Buffer.concat(chunks), done: true };
        }
        chunks.push(next.value);
        size += next.value.byteLength;
      }
    } catch (error) {
      this.end();
      throw error;
    }
    return { bytes: Buffer.concat(chunks), done: false };
  }

  /** Closes the connection if it is still in use, and gives it back. */
  end(reason?: Error): void {
    clearTimeout(this.#timer);
    this.#options.signal.removeEventListener('abort', this.#onSignal);
    this.#abort.abort(reason);
    this.#giveBack();
  }
}
