import { domException } from '../errors.ts';
import { tooFew } from '../interface.ts';
import { charCodeAt, fromBase64, IntrinsicUint8Array, toBase64, toDomText } from '../intrinsics.ts';
import { asNative } from '../native.ts';
import { latin1 } from '../utf8.ts';

const functions = {
  /** @throws DOMException InvalidCharacterError for what is no base64. White space and missing padding are none of it. */
  atob(data: unknown): string {
    if (arguments.length === 0) throw tooFew('atob', 1, 0);
    const text = toDomText(data);
    let bytes: Uint8Array;
    try {
      bytes = fromBase64(text);
    } catch {
      throw domException('InvalidCharacterError', 'The text is not correctly encoded in base64.');
    }
    return latin1(bytes);
  },

  /** @throws DOMException InvalidCharacterError for characters beyond U+00FF. */
  btoa(data: unknown): string {
    if (arguments.length === 0) throw tooFew('btoa', 1, 0);
    const text = toDomText(data);
    const bytes = new IntrinsicUint8Array(text.length);
    for (let i = 0; i < text.length; i++) {
      const code = charCodeAt(text, i);
      if (code > 0xff) {
        throw domException(
          'InvalidCharacterError',
          'btoa encodes characters up to U+00FF; encode others as UTF-8 first.',
        );
      }
      bytes[i] = code;
    }
    return toBase64(bytes);
  },
};

export const { atob, btoa } = functions;
asNative('atob', atob);
asNative('btoa', btoa);
