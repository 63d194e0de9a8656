import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** What a row of the table did to the machine, seen from outside. */
export interface Measurement {
  /** Most that one cell grew over what it held at the row's begin, by the kernel's high-water mark. */
  peakBytes: number;
  /** Longest time that a cell was over its bound without a break, ms. */
  overBoundMs: number;
  /** When a cell was first seen over the memory limit or the CPU limit, ms since the epoch. */
  firstOver: number | null;
  /** When a cell was first seen over its memory bound or its CPU limit, ms since the epoch: from then on it has to end. */
  hadToStop: number | null;
  /** Most that the server process held, and that it grew by, during the row. */
  serverBytes: number;
  serverGrownBytes: number;
  /** What the cells that still live hold more than at the row's begin. */
  leftBytes: number;
}

export type SamplerOrder =
  | { type: 'rest' }
  | { type: 'begin'; limitBytes: number; boundBytes: number; cpuMs: number }
  | { type: 'end' };

export interface Sampler {
  begin(order: Omit<Extract<SamplerOrder, { type: 'begin' }>, 'type'>): Promise<void>;
  end(): Promise<Measurement>;
  stop(): Promise<void>;
}

/** Watches the cells of a server, every 3 ms as far as the machine lets it. */
export async function startSampler(serverPid: number): Promise<Sampler> {
  // The first one only looks what a cell at rest holds.
  const first = startWorker(serverPid, undefined);
  const restRss = (await first.ask({ type: 'rest' })) as number;
  await first.worker.terminate();
  const { worker, ask } = startWorker(serverPid, restRss);
  return {
    begin: async (order) => void (await ask({ type: 'begin', ...order })),
    end: async () => (await ask({ type: 'end' })) as Measurement,
    stop: async () => void (await worker.terminate()),
  };
}

function startWorker(server: number, restRss: number | undefined) {
  const worker = new Worker(new URL('./sampler-worker.ts', import.meta.url), { workerData: { server, restRss } });
  const failed = new Promise<never>((_, reject) => worker.once('error', reject));
  failed.catch(() => {});
  const ask = async (order: SamplerOrder): Promise<unknown> => {
    worker.postMessage(order);
    const [answer] = (await Promise.race([once(worker, 'message'), failed])) as [unknown];
    return answer;
  };
  return { worker, ask };
}
