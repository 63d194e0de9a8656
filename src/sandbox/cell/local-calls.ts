import { compressionCalls } from './compression-calls.ts';
import { cryptoCall } from './crypto-calls.ts';

/** Calls that the cell answers itself: what Node can do and an isolate cannot. */
export interface LocalCalls {
  /** @param args JSON text of a list. Resolves with JSON text. Never rejects: what failed is told in the answer. */
  call(op: string, args: string): Promise<string>;
  /** Processor time of Node's threads for this body so far, ms: that of an isolate does not count it. */
  readonly cpuMs: number;
  /** How many are not answered. */
  readonly pending: number;
  close(): void;
}

type Operation = (args: unknown[]) => Promise<unknown>;

/**
 * One call of a cell runs at a time, in whatever thread Node has for it. So a script gets no more than one thread besides
 * its own, and how long a call takes is the processor time it took.
 */
let running: Promise<unknown> = Promise.resolve();

/** Resolves when no call runs any more: also one of a body that has ended. */
export const localCallsDone = () => running;

export function openLocalCalls(): LocalCalls {
  const compression = compressionCalls();
  const operations: Record<string, Operation> = { ...compression.operations, crypto: cryptoCall };
  let spentMs = 0;
  let since: number | undefined;
  let pending = 0;
  let closed = false;

  async function run(op: string, args: string): Promise<string> {
    if (closed) return 'null';
    since = performance.now();
    try {
      const operation = operations[op];
      if (operation === undefined) throw new Error(`There is no local call ${op}.`);
      return JSON.stringify((await operation(JSON.parse(args) as unknown[])) ?? null);
    } catch (error) {
      return JSON.stringify({ failed: describe(error) });
    } finally {
      spentMs += performance.now() - since;
      since = undefined;
    }
  }

  return {
    call(op, args) {
      pending++;
      const answer = running.then(() => run(op, args));
      running = answer;
      return answer.finally(() => {
        pending--;
      });
    },
    get cpuMs() {
      return spentMs + (since === undefined ? 0 : performance.now() - since);
    },
    get pending() {
      return pending;
    },
    close() {
      closed = true;
      compression.close();
    },
  };
}

/** What Node says of it, as the web platform names it. Node's own codes and stacks stay here (S3). */
function describe(error: unknown): { name: string; message: string } {
  if (!(error instanceof Error)) return { name: 'OperationError', message: 'The operation failed.' };
  const known = error instanceof DOMException || error instanceof TypeError || error instanceof RangeError;
  return { name: known ? error.name : 'OperationError', message: error.message };
}
