import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** What lies behind texts that crossed is given back after so many characters. */
const collectEvery = 16 * 1024 * 1024;

const collect = exposedGc();
let chars = 0;

/** For this thread only: every context that is made while the flag is set has `gc`, and no isolate may. */
function exposedGc(): (options: { type: 'major' }) => void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as (options: { type: 'major' }) => void;
  setFlagsFromString('--no-expose-gc');
  return gc;
}

/**
 * Counts a text that comes from an isolate or goes to one. It lies outside of this process's heap until a collection, and
 * V8 starts one only after 64 MB or more of it: streaming through a function of 32 MB would look like its growth. Only a
 * full collection finds such texts; the heap is small, so it takes a few milliseconds.
 */
export function textCrossed(length: number): void {
  chars += length;
  if (chars < collectEvery) return;
  chars = 0;
  collect({ type: 'major' });
}
