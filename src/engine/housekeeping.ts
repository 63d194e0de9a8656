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
/** While a workspace is being deleted whose runs have yet to stop. */
const deletingMs = 500;
/** Rows of one statement, so that none of them holds locks for long. */
const batch = 200;
/** Between two batches, so that runs go first. */
const pauseMs = 20;

export interface Housekeeping {
  /** Looks now, instead of at the next minute. */
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

  /** @returns when to look again, ms. */
  async function keepHouse(): Promise<number> {
    let deleting = false;
    const deleted = await inBatches(async () => {
      const { removed, left } = await removeDeletedWorkspaces(pool, batch);
      deleting = left;
      return removed;
    });
    const expired = await inBatches(() => removeExpired(pool, batch, null));
    const functions = await inBatches(() => removeExpiredFunctions(pool, batch, null));
    const pools = await inBatches(() => removeIdlePools(pool, batch));
    const wrong = await recountPools(pool);
    if (wrong.length > 0) logger.error({ wrong }, 'counters of pools were wrong, and were set right');
    const versions = await removeUnreachableVersions(pool);
    if (deleted + expired + functions + pools + versions > 0)
      logger.info({ deleted, expired, functions, pools, versions }, 'removed what is no longer kept');
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
