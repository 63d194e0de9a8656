import type ivm from 'isolated-vm';
import { memoryBound } from '../memory-bound.ts';
import type { BodyLimits, Usage } from '../protocol.ts';

const MiB = 1024 * 1024;

/**
 * The clocks and the memory of one body. Time counts while its isolate is live and not blocked in a host call (D26);
 * memory is what this process grew by since the body started, since blocked ancestors cannot grow.
 */
export interface Meter {
  block(): void;
  unblock(): void;
  /** Reads memory and clocks; the first limit that is passed. */
  sample(): 'memory' | 'cpu' | 'wall' | undefined;
  usage(): Usage;
  /** How much this process has grown since the body started, bytes. */
  grown(): number;
}

export function startMeter(isolate: ivm.Isolate, limits: BodyLimits): Meter {
  const cpuAtStart = isolate.cpuTime;
  let base = process.memoryUsage.rss();
  let peak = 0;
  let cpuMs = 0;
  let ranMs = 0;
  let since: number | undefined = performance.now();
  let grownAtBlock = 0;

  const wallMs = () => ranMs + (since === undefined ? 0 : performance.now() - since);
  const readCpu = () => {
    // A disposed isolate cannot be asked any more; its last reading stands.
    if (!isolate.isDisposed) cpuMs = Number(isolate.cpuTime - cpuAtStart) / 1e6;
    return cpuMs;
  };
  const grown = () => process.memoryUsage.rss() - base;

  return {
    grown,
    block() {
      ranMs = wallMs();
      since = undefined;
      grownAtBlock = grown();
      peak = Math.max(peak, grownAtBlock);
    },
    unblock() {
      since = performance.now();
      // What nested bodies left behind is not this body's.
      base = process.memoryUsage.rss() - grownAtBlock;
    },
    sample() {
      const memory = grown();
      peak = Math.max(peak, memory);
      if (memory > memoryBound(limits.memoryMb)) return 'memory';
      if (readCpu() > limits.cpuMs) return 'cpu';
      return wallMs() > limits.wallMs ? 'wall' : undefined;
    },
    usage: () => ({
      peakMemoryBytes: Math.max(0, peak),
      memoryLimitBytes: limits.memoryMb * MiB,
      cpuMs: Math.round(readCpu() * 10) / 10,
      wallMs: Math.round(wallMs() * 10) / 10,
    }),
  };
}
