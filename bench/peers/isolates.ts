/**
 * The limit of a step in a fresh isolate: isolated-vm alone, in this process, with the runtime globals and the same
 * bundle from V8's code cache. Nothing is recorded, nothing is limited, and no host call is made.
 */
import type ivm from 'isolated-vm';
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

serve({
  /** Runs steps one after the other. Answers how long it took, ms. */
  steps: async ({ steps }: { steps: number }) => {
    const begun = performance.now();
    for (let n = 0; n < steps; n++) await step(n);
    return performance.now() - begun;
  },
});
