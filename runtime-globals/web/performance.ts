import { now } from '../intrinsics.ts';

/** Milliseconds since this isolate was made: V8 alone has no finer clock than `Date`. */
export function makePerformance() {
  return { timeOrigin, now: () => now() - timeOrigin };
}

const timeOrigin = now();
