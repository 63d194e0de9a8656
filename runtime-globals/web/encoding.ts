import { typeError } from '../errors.ts';
import { IntrinsicRangeError, IntrinsicUint8Array, once, toLowerCase, toText, toWellFormed } from '../intrinsics.ts';
import { bytesOf, encodeUtf8, encodeUtf8Into, type Utf8Decoder, utf8DecoderClass } from '../utf8.ts';
import { trimmed } from './http-text.ts';

export const textEncoderClass = once(() => {
  return class TextEncoder {
    get encoding(): string {
      return 'utf-8';
    }

    encode(text: unknown = ''): Uint8Array {
      return encodeUtf8(toText(text));
    }

    encodeInto(source: unknown, destination: unknown): { read: number; written: number } {
      const bytes = bytesOf(destination);
      if (bytes === undefined) throw typeError('TextEncoder.encodeInto writes into a Uint8Array.');
      return encodeUtf8Into(toWellFormed(toText(source)), bytes);
    }
  };
});

const labels = {
  __proto__: null,
  'utf-8': true,
  utf8: true,
  unicode11utf8: true,
  unicode20utf8: true,
  'unicode-1-1-utf-8': true,
  'x-unicode20utf8': true,
} as unknown as Record<string, true | undefined>;

interface DecoderOptions {
  fatal?: unknown;
  ignoreBOM?: unknown;
}

/** UTF-8 only. */
export const textDecoderClass = once(() => {
  const Utf8Decoder = utf8DecoderClass();

  return class TextDecoder {
    readonly #options: { fatal: boolean; keepBom: boolean };
    /** Between two calls with `stream: true`. */
    #decoder: Utf8Decoder | undefined;

    constructor(label: unknown = 'utf-8', options: DecoderOptions = {}) {
      if (labels[toLowerCase(trimmed(toText(label)))] === undefined) {
        throw new IntrinsicRangeError(`TextDecoder knows utf-8 only, not ${toText(label)}.`);
      }
      this.#options = { fatal: Boolean(options.fatal), keepBom: Boolean(options.ignoreBOM) };
    }

    get encoding(): string {
      return 'utf-8';
    }

    get fatal(): boolean {
      return this.#options.fatal;
    }

    get ignoreBOM(): boolean {
      return this.#options.keepBom;
    }

    decode(input?: unknown, options: { stream?: unknown } = {}): string {
      const bytes = input === undefined ? new IntrinsicUint8Array(0) : bytesOf(input);
      if (bytes === undefined) throw typeError('TextDecoder.decode takes an ArrayBuffer or a view of one.');
      const decoder = this.#decoder ?? new Utf8Decoder(this.#options);
      const more = Boolean(options.stream);
      this.#decoder = more ? decoder : undefined;
      return decoder.decode(bytes, more);
    }
  };
});
