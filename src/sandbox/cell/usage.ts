import type ivm from 'isolated-vm';
import { trackGrowth } from '../growth.ts';
import { memoryBound } from '../memory-bound.ts';
import type { BodyLimits, Usage } from '../protocol.ts';

const MiB = 1024 * 1024;

/**
 * The clocks and the memory of one body. Time counts while its isolate is live and not blocked in a host call (D26);
 * memory is what this process grew by since the body started, since blocked ancestors cannot grow. CPU time is that of the
 * isolate's thread and of this one, which works for the script as well: calls, timers, log lines, iconv.
 */
export interface Meter {
  block(): void;
  unblock(): void;
  /** Reads memory and clocks; the first limit that is passed. */
  sample(): 'memory' | 'cpu' | 'wall' | undefined;
  usage(): Usage;
  /** Stops the clocks for good. */
  stop(): void;
  /** How much this process had grown since the body started at the last look at it, bytes. */
  readonly grown: number;
  /** After so long its growth may have reached the memory bound, at the earliest; ms. */
  readonly untilBoundMs: number;
}

/** Bytes a script can touch for the first time within a millisecond: 1.2 GB/s was the most that was measured. */
const fastestGrowth = 2 * MiB;

/** CPU time of this thread so far, ms. */
function threadCpu(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** @param otherCpuMs processor time of the body that is not its isolate's */
export function startMeter(isolate: ivm.Isolate, limits: BodyLimits, otherCpuMs: () => number): Meter {
  const cpuAtStart = isolate.cpuTime;
  const growth = trackGrowth(process.memoryUsage.rss());
  let isolateCpuMs = 0;
  let threadCpuMs = 0;
  let ranMs = 0;
  let since: number | undefined = performance.now();
  let threadSince = threadCpu();

  const wallMs = () => ranMs + (since === undefined ? 0 : performance.now() - since);
  const readCpu = () => {
    // A disposed isolate cannot be asked any more; its last reading stands.
    if (!isolate.isDisposed) isolateCpuMs = Number(isolate.cpuTime - cpuAtStart) / 1e6;
    return isolateCpuMs + threadCpuMs + (since === undefined ? 0 : threadCpu() - threadSince) + otherCpuMs();
  };
  const pause = () => {
    if (since === undefined) return;
    ranMs = wallMs();
    threadCpuMs += threadCpu() - threadSince;
    since = undefined;
  };

  return {
    get grown() {
      return growth.now;
    },
    get untilBoundMs() {
      return (memoryBound(limits.memoryMb) - growth.now) / fastestGrowth;
    },
    stop: pause,
    block() {
      pause();
      growth.block(process.memoryUsage.rss());
    },
    unblock() {
      since = performance.now();
      threadSince = threadCpu();
      growth.unblock(process.memoryUsage.rss());
    },
    sample() {
      // Reading it takes tens of microseconds, so no more often than a decision needs it.
      if (growth.read(process.memoryUsage.rss()) > memoryBound(limits.memoryMb)) return 'memory';
      if (readCpu() > limits.cpuMs) return 'cpu';
      return wallMs() > limits.wallMs ? 'wall' : undefined;
    },
    usage: () => ({
      peakMemoryBytes: growth.peak,
      memoryLimitBytes: limits.memoryMb * MiB,
      cpuMs: Math.round(readCpu() * 10) / 10,
      wallMs: Math.round(wallMs() * 10) / 10,
    }),
  };
}
