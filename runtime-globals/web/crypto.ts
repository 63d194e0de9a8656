import { bundle } from '../bundles.ts';
import { fillRandom } from '../chance.ts';
import { domException, typeError } from '../errors.ts';
import { asInterface } from '../interface.ts';
import {
  IntrinsicUint8Array,
  isView,
  once,
  slice,
  typedArrayName,
  viewBuffer,
  viewBytes,
  viewOffset,
} from '../intrinsics.ts';

/** Web Crypto's limit of one call, bytes. */
const quota = 65_536;

const hex = '0123456789abcdef';

/** The class, and the one instance, which is `crypto`. */
export const cryptoClass = once(() => {
  const secret = {};

  class Crypto {
    readonly #brand = true;

    constructor(given: unknown = undefined) {
      if (given !== secret) throw typeError('Illegal constructor');
    }

    get subtle(): object {
      void this.#brand;
      return bundle('subtle').subtle;
    }

    /** Fills the array and hands it back. @throws TypeMismatchError, QuotaExceededError past 65,536 bytes. */
    getRandomValues(array: unknown): unknown {
      void this.#brand;
      const name = typedArrayName(array);
      if (name === undefined && !isView(array)) {
        throw typeError('crypto.getRandomValues: its argument must be a typed array of integers.');
      }
      if (name === undefined || slice(name, 0, 5) === 'Float') {
        throw domException(
          'TypeMismatchError',
          `crypto.getRandomValues fills typed arrays of integers, not ${name ?? 'a DataView'}.`,
        );
      }
      const length = viewBytes(array);
      if (length > quota) {
        throw domException(
          'QuotaExceededError',
          `crypto.getRandomValues fills at most ${quota} bytes at once, and was given ${length}.`,
        );
      }
      if (length > 0) fillRandom(new IntrinsicUint8Array(viewBuffer(array), viewOffset(array), length));
      return array;
    }

    /** A random UUID of version 4. */
    randomUUID(): string {
      void this.#brand;
      const bytes = new IntrinsicUint8Array(16);
      fillRandom(bytes);
      bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
      bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
      let uuid = '';
      for (let i = 0; i < 16; i++) {
        const byte = bytes[i] as number;
        if (i === 4 || i === 6 || i === 8 || i === 10) uuid += '-';
        uuid += `${hex[byte >> 4]}${hex[byte & 15]}`;
      }
      return uuid;
    }
  }

  return { Crypto: asInterface('Crypto', Crypto), crypto: new Crypto(secret) };
});
