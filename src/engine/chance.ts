import { createHmac } from 'node:crypto';
import type { BodyReplay } from '../sandbox/protocol.ts';
import type { JournalRecord } from '../store/journal.ts';

/**
 * What a body's isolate gets to see the same time and chance again (D12, D13). The execution's secret never leaves the
 * server: each body has a key of its own, from which the secret cannot be found.
 */
export function bodyReplay(
  seed: Buffer,
  path: string,
  run: number,
  records: (JournalRecord | undefined)[],
): BodyReplay {
  return {
    chanceKey: createHmac('sha256', seed).update(path).digest('base64'),
    run,
    segments: Array.from(records, (record) =>
      record ? { run: record.recordedRun, clock: record.clock === null ? [] : JSON.parse(record.clock) } : null,
    ),
  };
}
