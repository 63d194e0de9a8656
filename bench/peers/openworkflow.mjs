/**
 * OpenWorkflow with its PostgreSQL backend, in its own process. A handle's `result()` polls once a second, which would be
 * all that is measured; so workflows are all put in at once, the worker takes as many at a time as are to be under way,
 * and a workflow counts as ended when its last line has run.
 */
import { OpenWorkflow } from 'openworkflow';
import { BackendPostgres } from 'openworkflow/postgres';
import { serve } from './serve.ts';

// Its driver takes a socket's folder from the environment, not from the URL.
const url = new URL(process.env.PEER_DATABASE_URL);
process.env.PGHOST = url.searchParams.get('host');
const backend = await BackendPostgres.connect(`postgresql:///${url.pathname.slice(1)}?user=${url.username}`);
const openworkflow = new OpenWorkflow({ backend });

const step = async (input) => ({ n: input.n + 1 });
let onEnd = () => {};
const workflow = openworkflow.defineWorkflow({ name: 'steps' }, async ({ input, step: durable }) => {
  let value = { n: 0 };
  for (let i = 0; i < input.steps; i++) value = await durable.run({ name: `step-${i}` }, () => step(value));
  onEnd();
  return value;
});

serve({
  /** Runs workflows, so many under way at once. Answers how long it took, ms. */
  steps: async ({ executions, steps, atOnce }) => {
    const worker = openworkflow.newWorker({ concurrency: atOnce });
    const all = Promise.withResolvers();
    let left = executions;
    onEnd = () => {
      if (--left === 0) all.resolve();
    };
    const begun = performance.now();
    await worker.start();
    for (let n = 0; n < executions; n++) await workflow.run({ steps });
    await all.promise;
    const took = performance.now() - begun;
    await worker.stop();
    return took;
  },
});
