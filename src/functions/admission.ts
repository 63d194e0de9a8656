import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';

interface Load {
  waiting: number;
  bytes: number;
}

/** The bounded queue of a server (S4): counts what waits for a cell, in all and per workspace. */
export class Admission {
  readonly #all: Load = { waiting: 0, bytes: 0 };
  readonly #byWorkspace = new Map<string, Load>();

  /**
   * Waits by `wait`, unless too much waits already.
   * @throws JobcellError OVERLOADED, and what `wait` throws.
   */
  async enter<T>(workspaceId: string, bytes: number, wait: () => Promise<T>): Promise<T> {
    const own = this.#byWorkspace.get(workspaceId) ?? { waiting: 0, bytes: 0 };
    if (isFull(this.#all, bytes, 1)) throw full('this server');
    // No workspace can fill the queue for the others.
    if (isFull(own, bytes, 2)) throw full('this workspace');
    this.#byWorkspace.set(workspaceId, own);
    for (const load of [this.#all, own]) {
      load.waiting++;
      load.bytes += bytes;
    }
    try {
      return await wait();
    } finally {
      for (const load of [this.#all, own]) {
        load.waiting--;
        load.bytes -= bytes;
      }
      if (own.waiting === 0) this.#byWorkspace.delete(workspaceId);
    }
  }
}

const isFull = ({ waiting, bytes }: Load, more: number, share: number) =>
  waiting >= limits.functionQueue / share || bytes + more > limits.functionQueueBytes / share;

const full = (whose: string) =>
  new JobcellError(
    'OVERLOADED',
    `Too many invocations of ${whose} wait for a sandbox process already; this one was not started. Try again later.`,
  );
