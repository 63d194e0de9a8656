import { ask, currentSegment } from './host.ts';
import { charCodeAt } from './intrinsics.ts';
import { outsideOfReplay } from './resolve-callback.ts';

/** Random bytes from the cell, a block at a time. */
interface Stream {
  segment: number | null;
  /** The block to ask for next. */
  next: number;
  text: string;
  at: number;
}

const replayed: Stream = { segment: 0, next: 0, text: '', at: 0 };
const real: Stream = { segment: null, next: 0, text: '', at: 0 };

/**
 * Where the next random bytes come from: the stream of the segment that the body is in, which begins anew after each
 * recorded call (D13); the machine's randomness in what is never replayed.
 */
function stream(): Stream {
  if (outsideOfReplay()) return real;
  const segment = currentSegment();
  if (replayed.segment !== segment) {
    replayed.segment = segment;
    replayed.next = 0;
    replayed.text = '';
    replayed.at = 0;
  }
  return replayed;
}

function byte(from: Stream): number {
  if (from.at === from.text.length) {
    from.text = ask(['chance', from.segment, from.next]);
    from.next++;
    from.at = 0;
  }
  return charCodeAt(from.text, from.at++);
}

/** A number from 0 to 1, without 1, in steps of 2 ** -53. */
export function randomNumber(): number {
  const from = stream();
  const high = ((byte(from) << 16) | (byte(from) << 8) | byte(from)) & 0x1f_ffff;
  const low = byte(from) * 2 ** 24 + ((byte(from) << 16) | (byte(from) << 8) | byte(from));
  return (high * 2 ** 32 + low) / 2 ** 53;
}

export function fillRandom(bytes: Uint8Array): void {
  const from = stream();
  const { length } = bytes;
  for (let i = 0; i < length; i++) bytes[i] = byte(from);
}
