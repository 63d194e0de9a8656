import type { Logger } from 'pino';
import { uuidv7 } from 'uuidv7';
import { openPool, type Pool } from '../store/database.ts';
import { expireLease, registerServer, removeServer, renewLease, takeOverExpired } from '../store/servers.ts';

/** D4: cells die this long before their server's lease can have run out, ms; less for leases too short for it. */
const safetyMs = (leaseMs: number) => Math.min(3_000, leaseMs / 3);

/** After a renewal that failed: an outage shorter than the lease must not cost it. */
const retryMs = 500;

export interface Lease {
  /** This incarnation of the server: what executions name as their holder. Changes when a lease was lost. */
  readonly serverId: string;
  /** Whether the server may still act under it, by its own monotonic clock (D4). */
  valid(): boolean;
  /** Ends the lease after its claims were given back. */
  stop(): Promise<void>;
}

/**
 * D1: one lease per server process, renewed three times in its length by one statement; the same beat frees what other
 * servers hold whose lease has run out.
 */
export async function startLease(options: {
  /** For takeovers. */
  pool: Pool;
  databaseUrl: string;
  logger: Logger;
  leaseMs: number;
  /** Pushes the cells' deadline on, to that many ms from now (D4). */
  extendDeadline: (ms: number) => void;
  /**
   * The lease ran out or was taken away: every run of this server must stop at once, and writes nothing (D2). Resolves
   * when nothing of them is left in a cell.
   */
  onLost: () => Promise<void>;
}): Promise<Lease> {
  const { pool, logger, leaseMs } = options;
  const beatMs = leaseMs / 3;
  // A connection of its own: a renewal must not wait behind other statements, nor for an answer that never comes.
  const ownPool = openPool(options.databaseUrl, {
    max: 1,
    answerMs: beatMs,
    onError: (error) => logger.warn({ err: error }, 'the connection of the lease broke; it is replaced'),
  });
  let serverId = uuidv7();
  let deadline = 0;
  let lost = false;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let expiry: NodeJS.Timeout | undefined;
  let beating: Promise<void> = Promise.resolve();
  let runsGone: Promise<void> = Promise.resolve();
  let takingOver: Promise<void> | undefined;

  function extend(sentAt: number): void {
    deadline = sentAt + leaseMs - safetyMs(leaseMs);
    const left = deadline - performance.now();
    options.extendDeadline(left);
    clearTimeout(expiry);
    expiry = setTimeout(loseLease, left, 'it could not be renewed in time');
  }

  function loseLease(why: string): void {
    if (lost || stopped) return;
    lost = true;
    logger.error(
      `lost the lease: ${why}; every run of this server is dropped and continues wherever it is claimed next`,
    );
    runsGone = options.onLost();
  }

  /** A lost lease is never revived: what was held under it may run elsewhere by now. */
  async function registerAnew(): Promise<void> {
    // What the old incarnation held is free before its time, but not before its cells are (D4).
    await runsGone;
    await expireLease(ownPool, serverId);
    await takeOverExpired(ownPool);
    serverId = uuidv7();
    const sentAt = performance.now();
    await registerServer(ownPool, serverId, leaseMs);
    lost = false;
    extend(sentAt);
  }

  /** @returns whether the lease is renewed. */
  async function beat(): Promise<boolean> {
    // The renewal does not wait for it.
    takingOver ??= takeOver().finally(() => {
      takingOver = undefined;
    });
    try {
      if (lost) await registerAnew();
      const sentAt = performance.now();
      if (await renewLease(ownPool, serverId, leaseMs)) {
        if (performance.now() < deadline) extend(sentAt);
      } else {
        loseLease('another server took it over');
      }
      return true;
    } catch (error) {
      logger.warn({ err: error }, 'could not renew the lease; trying again');
      return false;
    }
  }

  async function takeOver(): Promise<void> {
    try {
      const freed = await takeOverExpired(pool);
      if (freed > 0) logger.warn({ freed }, 'freed the executions of a server whose lease ran out');
    } catch (error) {
      logger.warn({ err: error }, 'could not look for leases that ran out; trying again');
    }
  }

  function schedule(ms: number): void {
    timer = setTimeout(() => {
      beating = beat().then((renewed) => {
        if (!stopped) schedule(renewed ? beatMs : Math.min(beatMs, retryMs));
      });
    }, ms);
  }

  const sentAt = performance.now();
  await registerServer(ownPool, serverId, leaseMs);
  extend(sentAt);
  schedule(beatMs);

  return {
    get serverId() {
      return serverId;
    },
    valid: () => !lost && performance.now() < deadline,
    async stop() {
      stopped = true;
      clearTimeout(timer);
      clearTimeout(expiry);
      await beating;
      await takingOver;
      await removeServer(ownPool, serverId).finally(() => ownPool.end());
    },
  };
}
