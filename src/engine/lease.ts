import type { Logger } from 'pino';
import { uuidv7 } from 'uuidv7';
import type { Pool } from '../store/database.ts';
import { expireLease, registerServer, removeServer, renewLease, takeOverExpired } from '../store/servers.ts';

/** D4: cells die this long before their server's lease can have run out, ms; less for leases too short for it. */
const safetyMs = (leaseMs: number) => Math.min(3_000, leaseMs / 3);

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
  pool: Pool;
  logger: Logger;
  leaseMs: number;
  /** Pushes the cells' deadline on, to that many ms from now (D4). */
  extendDeadline: (ms: number) => void;
  /** The lease ran out or was taken away: every run of this server must stop at once, and writes nothing (D2). */
  onLost: () => void;
}): Promise<Lease> {
  const { pool, logger, leaseMs } = options;
  let serverId = uuidv7();
  let deadline = 0;
  let lost = false;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let expiry: NodeJS.Timeout | undefined;
  let beating: Promise<void> = Promise.resolve();

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
    options.onLost();
  }

  /** A lost lease is never revived: what was held under it may run elsewhere by now. */
  async function registerAnew(): Promise<void> {
    // What the old incarnation held is free at once, not after its time.
    await expireLease(pool, serverId);
    await takeOverExpired(pool);
    serverId = uuidv7();
    const sentAt = performance.now();
    await registerServer(pool, serverId, leaseMs);
    lost = false;
    extend(sentAt);
  }

  async function beat(): Promise<void> {
    try {
      if (lost) await registerAnew();
      const sentAt = performance.now();
      if (await renewLease(pool, serverId, leaseMs)) {
        if (performance.now() < deadline) extend(sentAt);
      } else {
        loseLease('another server took it over');
      }
      const freed = await takeOverExpired(pool);
      if (freed > 0) logger.warn({ freed }, 'freed the executions of a server whose lease ran out');
    } catch (error) {
      logger.warn({ err: error }, 'could not renew the lease; trying again');
    }
  }

  function schedule(): void {
    timer = setTimeout(() => {
      beating = beat().finally(() => {
        if (!stopped) schedule();
      });
    }, leaseMs / 3);
  }

  const sentAt = performance.now();
  await registerServer(pool, serverId, leaseMs);
  extend(sentAt);
  schedule();

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
      await removeServer(pool, serverId);
    },
  };
}
