import type { CellProcess } from './cell-process.ts';
import { type Growth, trackGrowth } from './growth.ts';
import type { Usage } from './protocol.ts';

/**
 * What the server sees of a body from outside its cell: the usage of one whose cell died without a word. CPU time is the
 * process's since the body's start, so bodies nested in it count as well.
 */
export interface SeenUsage {
  readonly growth: Growth;
  /** The body stands still for a nested one, and goes on. */
  block(): void;
  unblock(): void;
  /** Reads the process's CPU time, unless that was done just now. */
  look(now: number): void;
  usage(memoryMb: number): Usage;
}

/** CPU time is read this often, ms: reading it takes ten times as long as reading memory. */
const lookMs = 250;

export function trackUsage(process: CellProcess): SeenUsage {
  const cpuAtStart = process.cpuMs();
  const growth = trackGrowth(process.memory().rss);
  let cpuMs = 0;
  let ranMs = 0;
  let since: number | undefined = performance.now();
  let lookedAt = since;

  return {
    growth,
    block() {
      growth.block(process.memory().rss);
      if (since !== undefined) ranMs += performance.now() - since;
      since = undefined;
    },
    unblock() {
      growth.unblock(process.memory().rss);
      since ??= performance.now();
    },
    look(now) {
      if (now - lookedAt < lookMs) return;
      lookedAt = now;
      cpuMs = Math.max(cpuMs, process.cpuMs() - cpuAtStart);
    },
    usage: (memoryMb) => ({
      peakMemoryBytes: growth.peak,
      memoryLimitBytes: memoryMb * 1024 * 1024,
      cpuMs,
      wallMs: Math.round((ranMs + (since === undefined ? 0 : performance.now() - since)) * 10) / 10,
    }),
  };
}
