/**
 * Isolates alone, in this process.
 *
 * The limit of a step in a fresh isolate: isolated-vm with the runtime globals and the same bundle from V8's code cache.
 * Nothing is recorded, nothing is limited, and no host call is made. And what the start of an isolate takes, with our
 * globals, bare, and of a context of node:vm, which isolates nothing.
 */
import { readFileSync } from 'node:fs';
import { createContext, runInContext } from 'node:vm';
import ivm from 'isolated-vm';
import { packageRoot } from '../../src/paths.ts';
import { openIsolates } from '../../src/sandbox/cell/isolates.ts';
import { stepScript } from '../harness/step-work.ts';
import { serve } from './serve.ts';

const memoryMb = 256;
const isolates = openIsolates(`${packageRoot}/dist/globals`);
const text = `${stepScript}\n;void 0`;
const cachedData = (() => {
  const { isolate } = isolates.take(memoryMb);
  const compiled = isolate.compileScriptSync(text, { produceCachedData: true }) as ivm.Script & {
    cachedData?: ivm.ExternalCopy<ArrayBuffer>;
  };
  isolate.dispose();
  if (compiled.cachedData === undefined) throw new Error('V8 made no code cache.');
  return compiled.cachedData;
})();

async function step(n: number): Promise<void> {
  const { isolate, context } = isolates.take(memoryMb);
  const script = isolate.compileScriptSync(text, { cachedData });
  if ((script as { cachedDataRejected?: boolean }).cachedDataRejected) throw new Error('V8 refused its code cache.');
  script.runSync(context);
  const main = context.global.getSync('main', { reference: true });
  const options = { arguments: { copy: true }, result: { copy: true, promise: true } } as const;
  const result = (await main.apply(undefined, [{ n }], options)) as { n: number };
  if (result.n !== n + 1) throw new Error(JSON.stringify(result));
  isolate.dispose();
}

/** Each makes one and answers how to be rid of it. */
const starts = {
  jobcell: () => {
    const { isolate } = isolates.take(memoryMb);
    return () => isolate.dispose();
  },
  bare: () => {
    const isolate = new ivm.Isolate({ memoryLimit: memoryMb });
    isolate.createContextSync();
    return () => isolate.dispose();
  },
  vm: () => {
    const context = createContext({});
    runInContext('0', context);
    return () => void context;
  },
};
export type IsolateKind = keyof typeof starts;

export interface IsolateStart {
  /** From nothing to ready, ms. */
  startMs: number;
  /** Core time of its start and its end, on all threads, ms. */
  coreMs: number;
}

const rss = () => {
  const pages = Number(readFileSync('/proc/self/statm', 'latin1').split(' ')[1]);
  return (pages * 4_096) / 2 ** 20;
};

serve({
  /** Runs steps one after the other. Answers how long it took, ms. */
  steps: async ({ steps }: { steps: number }) => {
    const begun = performance.now();
    for (let n = 0; n < steps; n++) await step(n);
    return performance.now() - begun;
  },
  /** Makes so many, and ends each before the next. Answers the mean. */
  starts: async ({ kind, count }: { kind: IsolateKind; count: number }): Promise<IsolateStart> => {
    let starting = 0;
    const before = process.cpuUsage();
    for (let n = 0; n < count; n++) {
      const begun = performance.now();
      const end = starts[kind]();
      starting += performance.now() - begun;
      end();
    }
    const { user, system } = process.cpuUsage(before);
    return { startMs: starting / count, coreMs: (user + system) / 1_000 / count };
  },
  /** Keeps so many at once. Answers the resident memory of one, MB. */
  memory: async ({ kind, count }: { kind: IsolateKind; count: number }): Promise<number> => {
    const before = rss();
    const ends = Array.from({ length: count }, () => starts[kind]());
    const each = (rss() - before) / count;
    for (const end of ends) end();
    return each;
  },
});
