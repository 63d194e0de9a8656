import { limits } from '../../src/limits.ts';
import { ask, currentSegment, keepClock } from '../host.ts';
import { now, parseJson } from '../intrinsics.ts';
import { outsideOfReplay } from '../resolve-callback.ts';

/** Segments that an earlier run of the body has recorded. */
let recordedSegments = 0;
let segment = -1;
/** What the clock said in this segment when it was recorded. */
let recorded: number[] = [];
/** The readings of this segment, counted and as text. */
let count = 0;
let readings = '';

export function startClock(segments: number): void {
  recordedSegments = segments;
  keepClock((of) => (of === segment ? readings : ''));
}

/** One reading of the clock by the script, ms since the epoch: what it was when the segment was recorded (D12). */
export function reading(): number {
  if (outsideOfReplay()) return now();
  const current = currentSegment();
  if (current !== segment) enter(current);
  if (count >= limits.clockReadings) return now();
  const at = count < recorded.length ? (recorded[count] as number) : now();
  count++;
  readings = readings === '' ? `${at}` : `${readings},${at}`;
  return at;
}

function enter(current: number): void {
  recorded = current < recordedSegments ? (parseJson(`[${ask(['clock', current])}]`) as number[]) : [];
  segment = current;
  count = 0;
  readings = '';
}
