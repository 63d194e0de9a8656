import type { Logger } from 'pino';

/** Behind the notifications, for the one that was missed: ms between looks at the database. */
const tickMs = 2_000;
/** Executions claimed in one statement at most. */
const claimAtOnce = 32;

export interface Scheduler {
  /** Looks for work now, or right after the look that is under way. */
  nudge(): void;
  /** Claims nothing more; resolves when a claim that is under way has been handed on. */
  stop(): Promise<void>;
}

/**
 * Claims executions as long as there is room and work. It is woken (`nudge`) by a start on this server, by a
 * notification from another one, and by a run that ended; the tick only catches what was missed.
 *
 * On each tick, and after a claim whose answer was lost, what the database says this server holds is compared with what
 * it runs (`reconcile`). Never while a claim is under way: what that took is not in the list of runs yet.
 */
export function startScheduler<T>(options: {
  logger: Logger;
  /** How many more executions this server can run now. */
  room: () => number;
  /** Claims up to `limit`; `again`: others may be claimed at once. `tick`: some time has passed. */
  claim: (limit: number, tick: boolean) => Promise<{ claimed: T[]; again: boolean }>;
  run: (claimed: T) => void;
  reconcile: () => Promise<void>;
}): Scheduler {
  let wanted = false;
  let doubtful = false;
  let ticked = false;
  let stopped = false;
  let looking: Promise<void> | null = null;

  async function look(): Promise<void> {
    while ((wanted || doubtful) && !stopped) {
      if (doubtful) {
        await options.reconcile();
        doubtful = false;
      }
      wanted = false;
      const limit = Math.min(options.room(), claimAtOnce);
      if (limit <= 0) return;
      const tick = ticked;
      ticked = false;
      const { claimed, again } = await options.claim(limit, tick).catch((error: unknown) => {
        doubtful = true;
        throw error;
      });
      for (const execution of claimed) options.run(execution);
      if (again || claimed.length === limit) wanted = true;
    }
  }

  function nudge(): void {
    wanted = true;
    if (stopped || looking) return;
    looking = look()
      .catch((error: unknown) => {
        options.logger.warn({ err: error }, 'could not look for work; the next tick tries again');
        wanted = false;
      })
      .finally(() => {
        looking = null;
        // A nudge that came while the last look was ending.
        if (wanted && options.room() > 0 && !stopped) nudge();
      });
  }

  const timer = setInterval(() => {
    doubtful = true;
    ticked = true;
    nudge();
  }, tickMs);
  return {
    nudge,
    async stop() {
      stopped = true;
      clearInterval(timer);
      await looking;
    },
  };
}
