import { limits } from '../src/limits.ts';
import type { LogLevel } from '../src/sandbox/protocol.ts';
import { sendIgnored } from './host.ts';
import { now } from './intrinsics.ts';
import { storable, utf8Bytes } from './text.ts';

/** What a line costs of the budget besides its text, so that endless empty lines end too. */
const lineOverhead = 64;
let budget: number = limits.logRunBytes;

/** Hands one line to the cell at once, so that it is kept even if the script never yields again. Bounded (S4, D33). */
export function log(level: LogLevel, message: string, attributes?: string): void {
  if (budget <= 0) return;
  const line = storable(message, limits.logLineBytes);
  budget -= lineOverhead + utf8Bytes(line, limits.logLineBytes) + (attributes === undefined ? 0 : attributes.length);
  if (budget > 0) {
    sendIgnored(['log', level, now(), line, attributes]);
  } else {
    const mib = limits.logRunBytes / 1024 / 1024;
    sendIgnored(['log', 'warn', now(), `The log of this run is cut here: it is larger than ${mib} MiB.`, undefined]);
  }
}
