import { apply, construct, defineProperty, hidden, IntrinsicDate } from '../intrinsics.ts';
import { asNative } from '../native.ts';
import { reading } from './clock.ts';

/**
 * `Date` whose readings of the clock are kept. Made at the script's first use of `Date`: until then nothing of the
 * built-in can be in the script's hands.
 */
export function makeDate(): unknown {
  const { prototype, parse, UTC } = IntrinsicDate;
  const nativeText = prototype.toString;

  // A function and not a class: `Date()` without `new` is the time as text.
  const Stand = function (...args: unknown[]): unknown {
    if (new.target === undefined) return apply(nativeText, new IntrinsicDate(reading()), []);
    return construct(IntrinsicDate, args.length === 0 ? [reading()] : args, new.target);
  };
  const stand = {
    now(): number {
      return reading();
    },
  };

  defineProperty(Stand, 'length', constant(7, true));
  defineProperty(Stand, 'name', constant('Date', true));
  defineProperty(Stand, 'prototype', constant(prototype, false));
  defineProperty(Stand, 'now', hidden(asNative('now', stand.now)));
  defineProperty(Stand, 'parse', hidden(parse));
  defineProperty(Stand, 'UTC', hidden(UTC));
  defineProperty(prototype, 'constructor', hidden(Stand));
  return asNative('Date', Stand);
}

function constant(value: unknown, configurable: boolean): PropertyDescriptor {
  return { __proto__: null, value, writable: false, enumerable: false, configurable } as PropertyDescriptor;
}
