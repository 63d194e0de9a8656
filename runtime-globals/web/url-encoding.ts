/** In the place of what whatwg-url takes of @exodus/bytes and of TextEncoder: a URL's encoding is always UTF-8 here. */
import { fromCharCode, IntrinsicUint8Array, indexOf } from '../intrinsics.ts';
import { decodeUtf8Keeping, encodeUtf8 } from '../utf8.ts';

const hex = '0123456789ABCDEF';

/** @param set ASCII characters that are encoded besides control characters and everything beyond ASCII */
export function percentEncodeAfterEncoding(_encoding: string, input: string, set: string, spaceAsPlus = false): string {
  const bytes = encodeUtf8(input);
  let text = '';
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    const character = fromCharCode(byte);
    if (byte === 0x20 && spaceAsPlus) text += '+';
    else if (byte > 0x1f && byte < 0x7f && indexOf(set, character) === -1) text += character;
    else text += `%${hex[byte >> 4]}${hex[byte & 15]}`;
  }
  return text;
}

export const utf8Encode = encodeUtf8;
export const utf8DecodeWithoutBOM = (bytes: Uint8Array) => decodeUtf8Keeping(new IntrinsicUint8Array(bytes));
