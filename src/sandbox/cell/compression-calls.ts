import type { Transform } from 'node:stream';
import {
  createBrotliCompress,
  createBrotliDecompress,
  createDeflate,
  createDeflateRaw,
  createGunzip,
  createGzip,
  createInflate,
  createInflateRaw,
} from 'node:zlib';
import { limits } from '../../limits.ts';

/** What is left over after the end of the compressed data is an error, as the Compression Standard has it. */
const strict = { rejectGarbageAfterEnd: true };
const chunked = { chunkSize: limits.compressionChunkBytes };

const makers: Record<string, () => Transform> = {
  'compress brotli': () => createBrotliCompress(chunked),
  'compress deflate': () => createDeflate(chunked),
  'compress deflate-raw': () => createDeflateRaw(chunked),
  'compress gzip': () => createGzip(chunked),
  'decompress brotli': () => createBrotliDecompress({ ...chunked, ...strict }),
  'decompress deflate': () => createInflate({ ...chunked, ...strict }),
  'decompress deflate-raw': () => createInflateRaw({ ...chunked, ...strict }),
  'decompress gzip': () => createGunzip({ ...chunked, ...strict }),
};

/** The compressors of one body. Each holds about as much as its output at a time, whatever its input expands to. */
export function compressionCalls() {
  const open = new Map<number, Coder>();

  function coderOf(number: unknown): Coder {
    const coder = open.get(number as number);
    if (coder === undefined) throw new TypeError('The stream is not there any more.');
    return coder;
  }

  /** The next output; the last of it ends the compressor. */
  async function next(number: unknown): Promise<{ body: string; more: boolean; ended: boolean }> {
    const coder = coderOf(number);
    try {
      const { bytes, more, ended } = await coder.next();
      if (ended) drop(number);
      return { body: bytes.toString('base64'), more, ended };
    } catch {
      drop(number);
      throw new TypeError('The compressed data is not valid.');
    }
  }

  function drop(number: unknown): void {
    open.get(number as number)?.destroy();
    open.delete(number as number);
  }

  return {
    operations: {
      /** `[stream, kind, bytes]`: input in base64, null at the end; the first makes the compressor. -> { body, more, ended } */
      async compressionWrite([number, kind, bytes]: unknown[]) {
        if (!open.has(number as number)) {
          if (open.size >= limits.compressionStreams) {
            throw new RangeError(
              `${limits.compressionStreams} compression streams are open already; finish some of them first.`,
            );
          }
          open.set(number as number, new Coder((makers[kind as string] as () => Transform)()));
        }
        coderOf(number).write(bytes === null ? null : Buffer.from(bytes as string, 'base64'));
        return next(number);
      },
      /** `[stream]`: more of the output of the last input. */
      compressionRead: ([number]: unknown[]) => next(number),
      /** `[stream]` */
      async compressionDrop([number]: unknown[]) {
        drop(number);
      },
    },
    close() {
      for (const number of open.keys()) drop(number);
    },
  };
}

/** A compressor whose output is taken piece by piece. */
class Coder {
  readonly #transform: Transform;
  #consumed = true;
  #ended = false;
  #error: Error | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(transform: Transform) {
    this.#transform = transform;
    transform.on('readable', () => this.#changed.resolve());
    transform.on('end', () => {
      this.#ended = true;
      this.#changed.resolve();
    });
    transform.on('error', (error) => {
      this.#error = error;
      this.#changed.resolve();
    });
  }

  write(bytes: Buffer | null): void {
    this.#consumed = false;
    const consumed = () => {
      this.#consumed = true;
      this.#changed.resolve();
    };
    if (bytes === null) this.#transform.end();
    else this.#transform.write(bytes, consumed);
  }

  /** `more`: the last input is not consumed yet. Rejects when it is not valid. */
  async next(): Promise<{ bytes: Buffer; more: boolean; ended: boolean }> {
    for (;;) {
      if (this.#error !== undefined) throw this.#error;
      const bytes = this.#transform.read() as Buffer | null;
      if (bytes !== null) return { bytes, more: !this.#consumed, ended: false };
      if (this.#ended) return { bytes: Buffer.alloc(0), more: false, ended: true };
      if (this.#consumed) return { bytes: Buffer.alloc(0), more: false, ended: false };
      await this.#changed.promise;
      this.#changed = Promise.withResolvers();
    }
  }

  destroy(): void {
    this.#transform.destroy();
  }
}
