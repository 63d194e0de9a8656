import {
  apply,
  charCodeAt,
  fromCharCode,
  IntrinsicTypeError,
  IntrinsicUint8Array,
  IntrinsicUint16Array,
  isArrayBuffer,
  isView,
  min,
  once,
  setBytes,
  slice,
  subarray,
  toWellFormed,
} from './intrinsics.ts';
import { utf8Bytes } from './text.ts';

export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  const clean = toWellFormed(text);
  const bytes = new IntrinsicUint8Array(utf8Bytes(clean, Number.MAX_SAFE_INTEGER));
  encodeUtf8Into(clean, bytes);
  return bytes;
}

/** Writes as many whole characters of a well-formed text as there is room for. */
export function encodeUtf8Into(text: string, bytes: Uint8Array): { read: number; written: number } {
  let written = 0;
  let read = 0;
  const { length } = text;
  const room = bytes.length;
  while (read < length) {
    const unit = charCodeAt(text, read);
    const pair = unit >= 0xd800 && unit <= 0xdbff;
    const needed = unit < 0x80 ? 1 : unit < 0x800 ? 2 : pair ? 4 : 3;
    if (written + needed > room) break;
    if (needed === 1) {
      bytes[written++] = unit;
    } else if (needed === 2) {
      bytes[written++] = 0xc0 | (unit >> 6);
      bytes[written++] = 0x80 | (unit & 0x3f);
    } else if (needed === 3) {
      bytes[written++] = 0xe0 | (unit >> 12);
      bytes[written++] = 0x80 | ((unit >> 6) & 0x3f);
      bytes[written++] = 0x80 | (unit & 0x3f);
    } else {
      const point = 0x10000 + ((unit - 0xd800) << 10) + (charCodeAt(text, read + 1) - 0xdc00);
      bytes[written++] = 0xf0 | (point >> 18);
      bytes[written++] = 0x80 | ((point >> 12) & 0x3f);
      bytes[written++] = 0x80 | ((point >> 6) & 0x3f);
      bytes[written++] = 0x80 | (point & 0x3f);
    }
    read += pair ? 2 : 1;
  }
  return { read, written };
}

/** UTF-16 units are collected here before they become text. */
const bufferUnits = 4_096;

/** The decoder of the Encoding Standard for UTF-8, which replaces each maximal wrong part by one U+FFFD. */
export const utf8DecoderClass = once(() => {
  return class Utf8Decoder {
    readonly #fatal: boolean;
    readonly #keepBom: boolean;
    #bomSeen = false;
    #point = 0;
    #needed = 0;
    #lower = 0x80;
    #upper = 0xbf;
    readonly #units = new IntrinsicUint16Array(bufferUnits);

    constructor(options: { fatal: boolean; keepBom: boolean }) {
      this.#fatal = options.fatal;
      this.#keepBom = options.keepBom;
    }

    /** @param more whether more bytes will follow. @throws TypeError when it is fatal and the bytes are not UTF-8. */
    decode(bytes: Uint8Array, more = false): string {
      const units = this.#units;
      let text = '';
      let count = 0;
      for (let i = 0; i < bytes.length; i++) {
        // A pair needs two places, and a wrong byte may be looked at twice.
        if (count > bufferUnits - 4) {
          text += toText(units, count);
          count = 0;
        }
        const byte = bytes[i] as number;
        if (this.#needed === 0) {
          if (byte < 0x80) units[count++] = byte;
          else if (!this.#begin(byte)) units[count++] = this.#wrong();
        } else if (byte < this.#lower || byte > this.#upper) {
          units[count++] = this.#wrong();
          // The byte may begin something of its own.
          i--;
        } else {
          this.#lower = 0x80;
          this.#upper = 0xbf;
          this.#point = (this.#point << 6) | (byte & 0x3f);
          if (--this.#needed > 0) continue;
          const point = this.#point;
          if (point >= 0x10000) units[count++] = 0xd800 + ((point - 0x10000) >> 10);
          units[count++] = point >= 0x10000 ? 0xdc00 + ((point - 0x10000) & 0x3ff) : point;
        }
      }
      if (!more && this.#needed > 0) units[count++] = this.#wrong();
      text += toText(units, count);
      return this.#withoutBom(text, more);
    }

    /** Whether the byte can begin a character. */
    #begin(byte: number): boolean {
      if (byte >= 0xc2 && byte <= 0xdf) {
        this.#needed = 1;
        this.#point = byte & 0x1f;
      } else if (byte >= 0xe0 && byte <= 0xef) {
        if (byte === 0xe0) this.#lower = 0xa0;
        if (byte === 0xed) this.#upper = 0x9f;
        this.#needed = 2;
        this.#point = byte & 0xf;
      } else if (byte >= 0xf0 && byte <= 0xf4) {
        if (byte === 0xf0) this.#lower = 0x90;
        if (byte === 0xf4) this.#upper = 0x8f;
        this.#needed = 3;
        this.#point = byte & 0x7;
      } else {
        return false;
      }
      return true;
    }

    #wrong(): number {
      this.#needed = 0;
      this.#lower = 0x80;
      this.#upper = 0xbf;
      if (!this.#fatal) return 0xfffd;
      this.#bomSeen = false;
      throw new IntrinsicTypeError('The encoded data was not valid for encoding utf-8');
    }

    #withoutBom(text: string, more: boolean): string {
      const first = !this.#bomSeen && text !== '';
      this.#bomSeen = more && (this.#bomSeen || text !== '');
      return first && !this.#keepBom && charCodeAt(text, 0) === 0xfeff ? slice(text, 1) : text;
    }
  };
});

function toText(units: Uint16Array, count: number): string {
  return apply(fromCharCode, undefined, subarray(units, 0, count) as ArrayLike<number> as number[]);
}

export const decodeUtf8 = (bytes: Uint8Array) =>
  new (utf8DecoderClass())({ fatal: false, keepBom: false }).decode(bytes);

/** Likewise, with the byte order mark if there is one. */
export const decodeUtf8Keeping = (bytes: Uint8Array) =>
  new (utf8DecoderClass())({ fatal: false, keepBom: true }).decode(bytes);

/** The bytes of an ArrayBuffer, a typed array or a DataView, not copied; undefined for anything else. */
export function bytesOf(value: unknown): Uint8Array<ArrayBuffer> | undefined {
  if (isView(value)) {
    return new IntrinsicUint8Array(value.buffer as ArrayBuffer, value.byteOffset, value.byteLength);
  }
  return isArrayBuffer(value) ? new IntrinsicUint8Array(value as ArrayBuffer) : undefined;
}

/** The bytes of a text that holds one in each character. */
export function fromLatin1(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new IntrinsicUint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = charCodeAt(text, i);
  return bytes;
}

/** A copy of them in a buffer of its own. */
export function copyBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new IntrinsicUint8Array(bytes);
}

/** All of them one after the other, in a buffer of their own. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  let size = 0;
  for (let i = 0; i < parts.length; i++) size += (parts[i] as Uint8Array).length;
  const all = new IntrinsicUint8Array(size);
  let at = 0;
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] as Uint8Array;
    setBytes(all, part, at);
    at += part.length;
  }
  return all;
}

/** One character a byte. */
export function latin1(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += bufferUnits) {
    const part = subarray(bytes, at, min(bytes.length, at + bufferUnits));
    text += apply(fromCharCode, undefined, part as ArrayLike<number> as number[]);
  }
  return text;
}
