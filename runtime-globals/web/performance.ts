import { now } from '../intrinsics.ts';

/** Milliseconds since this isolate was made: V8 alone has no finer clock than `Date`. */
export function makePerformance() {
  return { timeOrigin, now: () => now() - timeOrigin };
}

/** When this isolate was made, ms since the epoch. */
export const timeOrigin = now();
