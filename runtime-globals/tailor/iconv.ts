import { limits } from '../../src/limits.ts';
import { answerError, type IconvOperation } from '../../src/sandbox/boundary.ts';
import { typeError } from '../errors.ts';
import { ask } from '../host.ts';
import {
  fromBase64,
  IntrinsicError,
  indexOf,
  parseJson,
  slice,
  toBase64,
  toLowerCase,
  toWellFormed,
} from '../intrinsics.ts';
import { asNativeClass } from '../native.ts';
import { bytesOf } from '../utf8.ts';

type Bytes = Uint8Array | ArrayBuffer;
type Converted = string | Uint8Array;

/** `tailor.iconv` (behaviour.md 2): synchronous. What becomes UTF-8 is a string, anything else bytes. */
export function makeIconv() {
  const convert = (input: string | Bytes, from: string, to: string): Converted => fromTo('convert', input, from, to);

  return {
    convert,
    convertBuffer: (buffer: Bytes, from: string, to: string): Converted => {
      if (bytesOf(buffer) === undefined) throw typeError('convertBuffer: its first argument must be bytes.');
      return fromTo('convertBuffer', buffer, from, to);
    },
    decode: (buffer: Bytes, encoding: string): string => decode('decode', buffer, name('decode', encoding)),
    encode: (text: string, encoding: string): Converted => encode('encode', text, name('encode', encoding)),
    /** The names that the other calls know; upper case, spaces and punctuation in a name make no difference. */
    encodings: (): string[] => parseJson(call('encodings', 'encodings', '', '')) as string[],
    /** For scripts that know node-iconv. @throws when an encoding is not known. */
    Iconv: asNativeClass(
      'Iconv',
      class {
        readonly #from: string;
        readonly #to: string;

        constructor(from: string, to: string) {
          this.#from = name('Iconv', from);
          this.#to = name('Iconv', to);
          call('Iconv', 'decode', this.#from, '');
          call('Iconv', 'decode', this.#to, '');
        }

        convert(input: string | Bytes): Converted {
          return fromTo('Iconv.convert', input, this.#from, this.#to);
        }
      },
    ),
  };
}

/** A string is text already, whatever encoding it is said to have. */
function fromTo(what: string, input: string | Bytes, from: string, to: string): Converted {
  const source = name(what, from);
  const target = name(what, to);
  return encode(what, typeof input === 'string' ? input : decode(what, input, source), target);
}

function decode(what: string, input: Bytes, encoding: string): string {
  const bytes = bytesOf(input);
  if (bytes === undefined) throw typeError(`${what} takes a string, a Uint8Array or an ArrayBuffer.`);
  bound(what, bytes.length);
  return call(what, 'decode', encoding, toBase64(bytes));
}

function encode(what: string, text: string, encoding: string): Converted {
  if (typeof text !== 'string') throw typeError(`${what}: its first argument must be a string.`);
  if (isUtf8(encoding)) return toWellFormed(text);
  bound(what, text.length);
  return fromBase64(call(what, 'encode', encoding, text));
}

function bound(what: string, size: number): void {
  if (size <= limits.iconvBytes) return;
  throw typeError(`${what} converts at most ${limits.iconvBytes / 1024 / 1024} MiB at once; convert it in parts.`);
}

/** Longer than any name of an encoding. */
const maxNameLength = 64;

/** The encoding's name without what iconv puts behind it, such as `//TRANSLIT`: what has no place there becomes `?` anyway. */
function name(what: string, encoding: string): string {
  if (typeof encoding !== 'string') throw typeError(`${what}: the name of an encoding must be a string.`);
  const end = indexOf(encoding, '//');
  return slice(encoding, 0, end === -1 || end > maxNameLength ? maxNameLength : end);
}

const utf8Names = { __proto__: null, utf8: true, 'utf-8': true } as unknown as Record<string, true | undefined>;
const isUtf8 = (encoding: string) => utf8Names[toLowerCase(encoding)] === true;

function call(what: string, operation: IconvOperation, encoding: string, data: string): string {
  const answer = ask(['iconv', operation, encoding, data]);
  const text = slice(answer, 1);
  if (answer[0] === answerError) throw new IntrinsicError(`tailor.iconv.${what} failed: ${text}`);
  return text;
}
