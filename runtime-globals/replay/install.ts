import { randomNumber } from '../chance.ts';
import { defineProperty, hidden, IntrinsicMath, lazy } from '../intrinsics.ts';
import { asNative } from '../native.ts';
import { startClock } from './clock.ts';
import { makeDate } from './date.ts';
import { makeIntl } from './intl.ts';
import { makeTemporal } from './temporal.ts';

/**
 * From here on time and chance are kept, and the same again in a replay (D12, D13). Everything but `Math.random` is
 * made at its first use: each start of a body pays for what runs here.
 * @param segments how many recorded calls earlier runs of the body have made.
 */
export function installReplay(segments: number): void {
  const target = globalThis as Record<string, unknown>;
  startClock(segments);
  const stand = {
    random(): number {
      return randomNumber();
    },
  };
  defineProperty(IntrinsicMath, 'random', hidden(asNative('random', stand.random)));
  lazy(target, 'Date', makeDate);
  lazy(target, 'Intl', makeIntl);
  delete target.Temporal;
  lazy(target, 'Temporal', makeTemporal);
}
