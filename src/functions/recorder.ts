import type { Logger } from 'pino';
import { untilConnected } from '../store/connection-errors.ts';
import type { Pool } from '../store/database.ts';
import { type FunctionRecord, writeFunctionExecutions } from '../store/function-executions.ts';

/** Records of one statement at most, and their bytes. */
const groupSize = 64;
const groupBytes = 4 * 1024 * 1024;
/** Bytes of the records that nobody waits for; above it, an invocation is answered only when there is room (S4). */
const heldBytes = 32 * 1024 * 1024;

/**
 * Writes the records of invocations in groups, one statement at a time: whatever ends meanwhile goes into the next one,
 * without any timer, as `StepWriter` does. An answer does not wait for its record, since nothing depends on it; but
 * when the database cannot keep up, or is away, the answers slow down to its pace and no record is lost.
 */
export interface Recorder {
  /** Takes a record; resolves when there is room for more, mostly at once. */
  add(record: FunctionRecord): Promise<void>;
  /** Resolves when everything taken so far is written. */
  written(): Promise<void>;
  /** Waits for that up to `ms`, and then gives up what is left, loudly. */
  drain(ms: number): Promise<void>;
}

interface Entry {
  record: FunctionRecord;
  bytes: number;
  done: PromiseWithResolvers<void>;
}

export function createRecorder(pool: Pool, logger: Logger): Recorder {
  const waiting: Entry[] = [];
  let held = 0;
  let last: Promise<void> = Promise.resolve();
  let busy = false;
  let roomWaiters: (() => void)[] = [];
  const gaveUp = new AbortController();

  async function pump(): Promise<void> {
    if (busy) return;
    busy = true;
    while (waiting.length > 0) {
      const group = takeGroup();
      await commit(group);
      for (const { bytes, done } of group) {
        held -= bytes;
        done.resolve();
      }
      if (held <= heldBytes) {
        const callbacks = roomWaiters;
        roomWaiters = [];
        for (const callback of callbacks) callback();
      }
    }
    busy = false;
  }

  function takeGroup(): Entry[] {
    let bytes = 0;
    let count = 0;
    while (count < Math.min(waiting.length, groupSize)) {
      bytes += waiting[count]!.bytes;
      if (count > 0 && bytes > groupBytes) break;
      count++;
    }
    return waiting.splice(0, count);
  }

  /** Never rejects: one record that the database refuses must not fail its neighbours (D33). */
  async function commit(group: Entry[]): Promise<void> {
    try {
      const records = group.map(({ record }) => record);
      await untilConnected(() => writeFunctionExecutions(pool, records), gaveUp.signal);
    } catch (error) {
      if (gaveUp.signal.aborted) return;
      if (group.length > 1) {
        for (const entry of group) await commit([entry]);
        return;
      }
      const { id, workspaceId } = group[0]!.record;
      logger.error({ err: error, executionId: id, workspaceId }, 'a function execution could not be recorded');
    }
  }

  return {
    add(record) {
      // The end of an invocation overtakes its RUNNING row: a statement writes a row once.
      const early = waiting.findIndex((entry) => entry.record.id === record.id);
      if (early !== -1) {
        const [entry] = waiting.splice(early, 1) as [Entry];
        held -= entry.bytes;
        entry.done.resolve();
      }
      const entry: Entry = { record, bytes: bytesOf(record), done: Promise.withResolvers() };
      waiting.push(entry);
      held += entry.bytes;
      last = entry.done.promise;
      // After the answer, which is on its way in this turn of the event loop.
      setImmediate(pump);
      return held <= heldBytes ? Promise.resolve() : new Promise((resolve) => roomWaiters.push(resolve));
    },
    written: () => last,
    async drain(ms) {
      const timer = setTimeout(() => gaveUp.abort(new Error('The server stops.')), ms);
      await last;
      clearTimeout(timer);
      if (!gaveUp.signal.aborted) return;
      logger.error('the database was away for too long at the stop: the last function executions are not recorded');
    },
  };
}

function bytesOf({ args, result, error, logs }: FunctionRecord): number {
  const lines = logs.reduce((sum, { message, attributes }) => sum + message.length + (attributes?.length ?? 0) + 64, 0);
  const values = (args.text?.length ?? 0) + (result?.text?.length ?? 0) + (error?.length ?? 0);
  return 512 + values + lines;
}
