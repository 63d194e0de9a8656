import { typeError } from '../errors.ts';
import { asInterface } from '../interface.ts';
import { now, once } from '../intrinsics.ts';

/** When this isolate was made, ms since the epoch. */
export const timeOrigin = now();

/** The class, and the one instance, which is `performance`. */
export const performanceClass = once(() => {
  const secret = {};

  class Performance {
    readonly #brand = true;

    constructor(given: unknown = undefined) {
      if (given !== secret) throw typeError('Illegal constructor');
    }

    /** Milliseconds since this isolate was made: V8 alone has no finer clock than `Date`. */
    now(): number {
      void this.#brand;
      return now() - timeOrigin;
    }

    get timeOrigin(): number {
      void this.#brand;
      return timeOrigin;
    }

    toJSON(): object {
      void this.#brand;
      return { timeOrigin };
    }
  }

  return { Performance: asInterface('Performance', Performance), performance: new Performance(secret) };
});
