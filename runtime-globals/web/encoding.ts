import { bundle } from '../bundles.ts';
import { typeError } from '../errors.ts';
import { asInterface, dictionary } from '../interface.ts';
import {
  IntrinsicUint8Array,
  indexOf,
  slice,
  toDomText,
  toLowerCase,
  toWellFormed,
  typedArrayName,
} from '../intrinsics.ts';
import { bytesOf, encodeUtf8, encodeUtf8Into, utf8DecoderClass } from '../utf8.ts';

export class TextEncoder {
  /** Only what the class itself made has it. */
  readonly #encoding = 'utf-8';

  get encoding(): string {
    return this.#encoding;
  }

  encode(text: unknown = ''): Uint8Array {
    void this.#encoding;
    return encodeUtf8(toDomText(text));
  }

  encodeInto(source: unknown, destination: unknown): { read: number; written: number } {
    void this.#encoding;
    const text = toDomText(source);
    if (typedArrayName(destination) !== 'Uint8Array')
      throw typeError('TextEncoder.encodeInto writes into a Uint8Array.');
    return encodeUtf8Into(toWellFormed(text), destination as Uint8Array);
  }
}

asInterface('TextEncoder', TextEncoder);

const utf8Labels = {
  __proto__: null,
  'utf-8': true,
  utf8: true,
  unicode11utf8: true,
  unicode20utf8: true,
  'unicode-1-1-utf-8': true,
  'x-unicode20utf8': true,
} as unknown as Record<string, true | undefined>;

function trimAscii(text: string): string {
  const space = (at: number) => indexOf(' \t\n\f\r', text[at] as string) !== -1;
  let from = 0;
  let to = text.length;
  while (from < to && space(from)) from++;
  while (to > from && space(to - 1)) to--;
  return slice(text, from, to);
}

/** What decodes for a TextDecoder: ours for UTF-8, and @exodus/bytes for every other encoding of the standard. */
interface Decoder {
  encoding: string;
  fatal: boolean;
  ignoreBOM: boolean;
  decode: (bytes: Uint8Array, more: boolean) => string;
}

/** @throws RangeError for a label that the standard does not know. */
export function decoderFor(label: unknown, options: unknown): Decoder {
  const text = toDomText(label);
  const given = dictionary(options, 'The options of a decoder');
  const fatal = Boolean(given.fatal);
  const ignoreBOM = Boolean(given.ignoreBOM);
  if (utf8Labels[toLowerCase(trimAscii(text))] !== undefined) {
    const decoder = new (utf8DecoderClass())({ fatal, keepBom: ignoreBOM });
    return { encoding: 'utf-8', fatal, ignoreBOM, decode: (bytes, more) => decoder.decode(bytes, more) };
  }
  const decoder = new (bundle('legacy-encodings').TextDecoder)(text, { fatal, ignoreBOM });
  const { encoding } = decoder;
  return { encoding, fatal, ignoreBOM, decode: (bytes, more) => decoder.decode(bytes, { stream: more }) };
}

export class TextDecoder {
  readonly #decoder: Decoder;

  constructor(label: unknown = 'utf-8', options: unknown = undefined) {
    this.#decoder = decoderFor(label, options);
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

  /** @throws TypeError for what is not valid, when it is fatal. */
  decode(input: unknown = undefined, options: unknown = undefined): string {
    const decoder = this.#decoder;
    const bytes = input === undefined ? new IntrinsicUint8Array(0) : bytesOf(input);
    if (bytes === undefined) throw typeError('TextDecoder.decode takes an ArrayBuffer or a view of one.');
    const { stream } = dictionary(options, 'The options of TextDecoder.decode');
    return decoder.decode(bytes, Boolean(stream));
  }
}

asInterface('TextDecoder', TextDecoder);
