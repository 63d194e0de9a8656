import { createCipheriv, createHmac, randomBytes } from 'node:crypto';
import { chanceBlockBytes } from '../boundary.ts';
import type { BodyReplay } from '../protocol.ts';

const zeros = Buffer.alloc(chanceBlockBytes);
const cipherBlockBytes = 16;

/**
 * One block of a segment's chance (D13): AES-256-CTR under a key of the body's, the segment and the run that recorded
 * it. So it is the same whenever the segment is replayed and another one whenever it is run anew. The machine's own
 * randomness where nothing is ever replayed. One character a byte.
 */
export function chanceBlock(replay: BodyReplay | null, segment: number | null, block: number): string {
  if (replay === null || segment === null) return randomBytes(chanceBlockBytes).toString('latin1');
  const run = replay.segments[segment]?.run ?? replay.run;
  const key = createHmac('sha256', Buffer.from(replay.chanceKey, 'base64')).update(`${run}/${segment}`).digest();
  const counter = Buffer.alloc(cipherBlockBytes);
  counter.writeBigUInt64BE(BigInt(block) * BigInt(chanceBlockBytes / cipherBlockBytes), cipherBlockBytes - 8);
  return createCipheriv('aes-256-ctr', key, counter).update(zeros).toString('latin1');
}

/** What the clock said in a segment when it was recorded, in the form of `Outward`; nothing past the last record. */
export function clockText(replay: BodyReplay | null, segment: number): string {
  return (replay?.segments[segment]?.clock ?? []).join(',');
}
