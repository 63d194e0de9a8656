import type { ReadableStream, WritableStream } from 'web-streams-polyfill';
import { bundle } from '../bundles.ts';
import { typeError } from '../errors.ts';
import { asInterface } from '../interface.ts';
import { charCodeAt, IntrinsicUint8Array, slice, toDomText } from '../intrinsics.ts';
import { bytesOf, encodeUtf8 } from '../utf8.ts';
import { type Ends, endsOf } from './stream-parts.ts';

export class TextEncoderStream {
  readonly #ends: Ends;

  constructor() {
    /** The first half of a pair that the next chunk may complete. */
    let high = '';
    this.#ends = endsOf({
      transform(chunk, enqueue) {
        const text = high + toDomText(chunk);
        const last = text.length - 1;
        const code = last < 0 ? 0 : charCodeAt(text, last);
        const open = code >= 0xd800 && code <= 0xdbff;
        high = open ? slice(text, last) : '';
        const whole = open ? slice(text, 0, last) : text;
        if (whole !== '') enqueue(encodeUtf8(whole));
      },
      flush(enqueue) {
        if (high !== '') enqueue(encodeUtf8(high));
      },
    });
  }

  get encoding(): string {
    void this.#ends;
    return 'utf-8';
  }

  get readable(): ReadableStream {
    return this.#ends.readable;
  }

  get writable(): WritableStream {
    return this.#ends.writable;
  }
}

asInterface('TextEncoderStream', TextEncoderStream);

export class TextDecoderStream {
  readonly #ends: Ends;
  readonly #decoder: { encoding: string; fatal: boolean; ignoreBOM: boolean };

  constructor(label: unknown = 'utf-8', options: unknown = undefined) {
    const decoder = bundle('encoding').decoderFor(label, options);
    const { encoding, fatal, ignoreBOM } = decoder;
    this.#decoder = { encoding, fatal, ignoreBOM };
    this.#ends = endsOf({
      transform(chunk, enqueue) {
        const bytes = bytesOf(chunk);
        if (bytes === undefined) throw typeError('TextDecoderStream takes ArrayBuffers and views of them.');
        const text = decoder.decode(bytes, true);
        if (text !== '') enqueue(text);
      },
      flush(enqueue) {
        const text = decoder.decode(new IntrinsicUint8Array(0), false);
        if (text !== '') enqueue(text);
      },
    });
  }

  get encoding(): string {
    return this.#decoder.encoding;
  }

  get fatal(): boolean {
    return this.#decoder.fatal;
  }

  get ignoreBOM(): boolean {
    return this.#decoder.ignoreBOM;
  }

  get readable(): ReadableStream {
    return this.#ends.readable;
  }

  get writable(): WritableStream {
    return this.#ends.writable;
  }
}

asInterface('TextDecoderStream', TextDecoderStream);
