import {
  apply,
  defineProperty,
  getOwnPropertyDescriptor,
  hidden,
  IntrinsicIntl,
  weakGet,
  weakSet,
} from '../intrinsics.ts';
import { asNative } from '../native.ts';
import { reading } from './clock.ts';

type Format = (date?: unknown) => unknown;

/** `Intl`, whose DateTimeFormat takes a kept reading of the clock where no date is given. */
export function makeIntl(): unknown {
  const { prototype } = IntrinsicIntl.DateTimeFormat;
  const nativeGet = getOwnPropertyDescriptor(prototype, 'format')?.get as () => Format;
  const nativeFormatToParts = prototype.formatToParts as Format;
  const orNow = (date: unknown) => (date === undefined ? reading() : date);
  /** V8 binds one function to each format; ours is likewise the same at each access. */
  const bound = new WeakMap<object, unknown>();

  const stand = {
    get format(): Format {
      const native = apply(nativeGet, this, []) as Format;
      const known = weakGet(bound, native) as Format | undefined;
      if (known !== undefined) return known;
      const made = asNative(
        '',
        nameless((date) => native(orNow(date))),
      );
      weakSet(bound, native, made);
      return made;
    },
    formatToParts(date: unknown): unknown {
      return apply(nativeFormatToParts, this, [orNow(date)]);
    },
  };
  const get = getOwnPropertyDescriptor(stand, 'format')?.get as () => Format;
  defineProperty(prototype, 'format', {
    __proto__: null,
    get: asNative('get format', get),
    set: undefined,
    enumerable: false,
    configurable: true,
  } as unknown as PropertyDescriptor);
  defineProperty(prototype, 'formatToParts', hidden(asNative('formatToParts', stand.formatToParts)));
  return IntrinsicIntl;
}

/** A function that is given to this one gets no name from a variable. */
const nameless = (format: Format): Format => format;
