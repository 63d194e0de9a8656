import { limits } from '../../src/limits.ts';
import { bundle } from '../bundles.ts';
import { typeError } from '../errors.ts';
import { callLocal } from '../host.ts';
import { asInterface, tooFew } from '../interface.ts';
import { fromBase64, IntrinsicRangeError, min, subarray, toBase64, toDomText } from '../intrinsics.ts';
import { bytesOf } from '../utf8.ts';

type Ends = ReturnType<ReturnType<typeof streams>['endsOf']>;
const streams = () => bundle('streams');

/** Compressors of this isolate are numbered, as exchanges of fetch are. */
let nextNumber = 0;

interface Output {
  body: string;
  more: boolean;
  ended: boolean;
}

function endsFor(way: 'compress' | 'decompress', name: unknown): Ends {
  const format = toDomText(name);
  if (format !== 'deflate' && format !== 'deflate-raw' && format !== 'gzip' && format !== 'brotli') {
    throw typeError(`There is no compression format '${format}': it is deflate, deflate-raw, gzip or brotli.`);
  }
  const number = nextNumber++;
  let ended = false;

  /** One piece of input, and all output that it makes. */
  async function pass(input: string | null, enqueue: (chunk: unknown) => void): Promise<void> {
    let output = await ask(
      'compressionWrite',
      `[${number},"${way} ${format}",${input === null ? 'null' : `"${input}"`}]`,
    );
    for (;;) {
      if (output.body !== '') enqueue(fromBase64(output.body));
      if (output.ended) ended = true;
      // The last input is not over before the compressor has ended.
      if (output.ended || (!output.more && input !== null)) return;
      output = await ask('compressionRead', `[${number}]`);
    }
  }

  return streams().endsOf({
    async transform(chunk, enqueue) {
      const bytes = bytesOf(chunk);
      if (bytes === undefined) throw typeError('A compression stream takes ArrayBuffers and views of them.');
      if (ended && bytes.length > 0) throw typeError('There is something after the end of the compressed data.');
      for (let at = 0; at < bytes.length; at += limits.compressionChunkBytes) {
        const piece = subarray(bytes, at, min(bytes.length, at + limits.compressionChunkBytes)) as Uint8Array;
        await pass(toBase64(piece), enqueue);
      }
    },
    async flush(enqueue) {
      if (!ended) await pass(null, enqueue);
    },
    cancel: () => void callLocal('compressionDrop', `[${number}]`),
  });
}

async function ask(op: string, args: string): Promise<Output> {
  const answer = (await callLocal(op, args)) as Output | { failed: { name: string; message: string } };
  if (!('failed' in answer)) return answer;
  const { name, message } = answer.failed;
  throw name === 'RangeError' ? new IntrinsicRangeError(message) : typeError(message);
}

export class CompressionStream {
  readonly #ends: Ends;

  constructor(format: unknown) {
    if (arguments.length === 0) throw tooFew('CompressionStream', 1, 0);
    this.#ends = endsFor('compress', format);
  }

  get readable(): Ends['readable'] {
    return this.#ends.readable;
  }

  get writable(): Ends['writable'] {
    return this.#ends.writable;
  }
}

asInterface('CompressionStream', CompressionStream);

export class DecompressionStream {
  readonly #ends: Ends;

  constructor(format: unknown) {
    if (arguments.length === 0) throw tooFew('DecompressionStream', 1, 0);
    this.#ends = endsFor('decompress', format);
  }

  get readable(): Ends['readable'] {
    return this.#ends.readable;
  }

  get writable(): Ends['writable'] {
    return this.#ends.writable;
  }
}

asInterface('DecompressionStream', DecompressionStream);
