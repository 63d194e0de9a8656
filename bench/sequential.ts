/**
 * One execution of 1,000 job functions, one after the other, and how the rate changes at 100 and 10,000: on the fast path
 * a step costs the same however many came before it.
 *
 * Beside it, on the same PostgreSQL: DBOS Transact direct and OpenWorkflow (the latter up to 1,000 steps). The limit:
 * isolated-vm alone in one process.
 */
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { conditionsOf } from './harness/conditions.ts';
import { startDatabase } from './harness/database.ts';
import { interleave } from './harness/load.ts';
import { figure, median, range, table, targets } from './harness/report.ts';
import { peerLine, startLimit, startStepContenders } from './harness/step-contenders.ts';

const lengths = [100, 1_000, 10_000];
/** OpenWorkflow reads all attempts of a run before it goes on, and bounds how many a run may have. */
const openworkflowSteps = 1_000;

export const benchmark: Benchmark = {
  title: 'Sequential',
  async run(options) {
    const [few, middle, many] = lengths.map((steps) => scaled(steps, options.short)) as [number, number, number];
    const database = await startDatabase();
    try {
      const conditions = await conditionsOf(database);
      const contenders = await startStepContenders(database);
      const limit = await startLimit(1);
      const turns: Record<string, () => Promise<number>> = {};
      for (const steps of [few, middle, many]) {
        for (const { name, run } of contenders) {
          if (name === 'openworkflow' && steps > openworkflowSteps) continue;
          turns[`${name} ${steps}`] = async () => (steps * 1_000) / (await run({ executions: 1, steps, atOnce: 1 }));
        }
      }
      turns[`limit ${middle}`] = async () => (middle * 1_000) / (await limit.run(middle));
      const rates = await interleave(options, turns);
      for (const { stop } of [...contenders, limit]) await stop();

      const rows = Object.entries(rates).map(([key, list]) => {
        const [name, steps] = key.split(' ') as [string, string];
        const ratio = median(rates[`jobcell ${steps}`]!) / median(list);
        return [name, figure(Number(steps)), figure(median(list)), range(list), ratio.toFixed(2)];
      });
      const rate = (name: string, steps: number) => median(rates[`${name} ${steps}`]!);
      return [
        '`npm run bench -- sequential`: one execution whose job functions run one after the other. Medians of',
        `${options.rounds} interleaved rounds.`,
        '',
        ...conditions.lines,
        peerLine(),
        "- The limit: isolated-vm alone in one process, with the same globals and the same bundle from V8's code cache.",
        '',
        ...table(['', 'steps', 'steps/s', 'range', 'jobcell to it'], rows),
        '',
        ...targets([
          {
            what: `of DBOS, ${figure(middle)} steps`,
            must: 0.65,
            goal: 0.8,
            moonshot: 1,
            reached: rate('jobcell', middle) / rate('dbos', middle),
          },
          {
            what: `rate at ${figure(many)} steps, of that at ${figure(middle)}`,
            must: 0.9,
            goal: 1,
            reached: rate('jobcell', many) / rate('jobcell', middle),
          },
        ]),
      ];
    } finally {
      await database.stop();
    }
  },
};
