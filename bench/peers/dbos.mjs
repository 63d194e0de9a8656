/** DBOS Transact, called directly in its own process: workflows of steps that are plain functions, without a sandbox. */
import { DBOS } from '@dbos-inc/dbos-sdk';
import { load } from '../harness/load.ts';
import { serve } from './serve.ts';

const quiet = () => {};
DBOS.setConfig({
  name: 'bench',
  systemDatabaseUrl: process.env.PEER_DATABASE_URL,
  logger: { info: quiet, debug: quiet, warn: console.error, error: console.error },
});

const step = async (input) => ({ n: input.n + 1 });
const workflow = DBOS.registerWorkflow(
  async ({ steps }) => {
    let value = { n: 0 };
    for (let i = 0; i < steps; i++) value = await DBOS.runStep(() => step(value), { name: 'step' });
    return value;
  },
  { name: 'steps' },
);
await DBOS.launch();

async function run(steps) {
  const handle = await DBOS.startWorkflow(workflow)({ steps });
  const { n } = await handle.getResult();
  if (n !== steps) throw new Error(`The result is ${n} after ${steps} steps.`);
}

serve({
  /** Runs workflows, so many under way at once. Answers how long it took, ms. */
  steps: ({ executions, steps, atOnce }) => load(executions, atOnce, () => run(steps)),
  /** Runs workflows one after the other. Answers what each took, ms. */
  latency: async ({ executions, steps }) => {
    const times = [];
    for (let n = 0; n < executions; n++) times.push(await load(1, 1, () => run(steps)));
    return times;
  },
});
