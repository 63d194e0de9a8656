import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Pool } from '../store/database.ts';
import { recountPools } from '../store/pools.ts';
import {
  removeDeletedWorkspaces,
  removeExpired,
  removeExpiredFunctions,
  removeIdlePools,
  removeUnreachableVersions,
} from '../store/retention.ts';

const everyMs = 60_000;
/** Nothing younger than an hour goes, so looking more often finds nothing more. */
const versionsEveryMs = 3_600_000;
/** While a workspace is being deleted whose runs have yet to stop. */
const deletingMs = 500;
/** Rows of one statement, so that none of them holds locks for long. */
const batch = 200;
/** Between two batches, so that runs go first. */
const pauseMs = 20;

export interface Housekeeping {
  /** Looks for deleted workspaces now, instead of at the next minute. */
  nudge(): void;
  stop(): Promise<void>;
}

/**
 * Removes what is no longer kept, in small batches: rows of deleted workspaces (D31), finished executions past their
 * retention, and script versions that nothing can reach (D32). Every server does it; each row goes once.
 */
export function startHousekeeping(pool: Pool, logger: Logger): Housekeeping {
  const stopping = new AbortController();
  let wake = () => {};

  async function inBatches(remove: () => Promise<number>): Promise<number> {
    let all = 0;
    for (let gone = await remove(); gone > 0 && !stopping.signal.aborted; gone = await remove()) {
      all += gone;
      await sleep(pauseMs);
    }
    return all;
  }

  const removeAllExpired = atMost(everyMs, async () => {
    const executions = await inBatches(() => removeExpired(pool, batch, null));
    return executions + (await inBatches(() => removeExpiredFunctions(pool, batch, null)));
  });
  const removeVersions = atMost(versionsEveryMs, () => removeUnreachableVersions(pool));

  /** @returns when to look again, ms. */
  async function keepHouse(): Promise<number> {
    let deleting = false;
    const deleted = await inBatches(async () => {
      const { removed, left } = await removeDeletedWorkspaces(pool, batch);
      deleting = left;
      return removed;
    });
    const expired = await removeAllExpired();
    const versions = await removeVersions();
    const pools = await inBatches(() => removeIdlePools(pool, batch));
    const wrong = await recountPools(pool);
    if (wrong.length > 0) logger.error({ wrong }, 'counters of pools were wrong, and were set right');
    if (deleted + expired + versions + pools > 0)
      logger.info({ deleted, expired, versions, pools }, 'removed what is no longer kept');
    return deleting ? deletingMs : everyMs;
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const pauseFor = await keepHouse().catch((error: unknown) => {
        logger.warn({ err: error }, 'could not remove what is no longer kept; trying again in a minute');
        return everyMs;
      });
      const pause = new AbortController();
      const signal = AbortSignal.any([pause.signal, stopping.signal]);
      await Promise.race([woken, sleep(pauseFor, undefined, { signal }).catch(() => undefined)]);
      pause.abort();
    }
  }

  const looping = loop();
  return {
    nudge: () => wake(),
    async stop() {
      stopping.abort();
      await looping;
    },
  };
}

/** Does something once in so many ms at most, and nothing (0) in between. */
function atMost(ms: number, remove: () => Promise<number>): () => Promise<number> {
  let due = 0;
  return async () => {
    if (performance.now() < due) return 0;
    const removed = await remove();
    due = performance.now() + ms;
    return removed;
  };
}
