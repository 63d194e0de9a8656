/**
 * Many executions side by side: 200 of 10 job functions each over 10 workspaces, every step in a fresh isolate and with
 * one committed record, 8 and 32 executions under way. Steps a second; core time, transactions and statements a step.
 *
 * Beside it, on the same PostgreSQL: DBOS Transact direct and OpenWorkflow (no sandbox: plain functions in their own
 * process). The limit: isolated-vm alone with our globals and the same bundle from V8's code cache, in 2 processes.
 */
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { conditionsOf } from './harness/conditions.ts';
import { startDatabase } from './harness/database.ts';
import { interleave } from './harness/load.ts';
import { figure, median, range, table, targets } from './harness/report.ts';
import { peerLine, startLimit, startStepContenders } from './harness/step-contenders.ts';
import { workspaces } from './harness/step-work.ts';
import { type Usage, usageOf } from './harness/usage.ts';

const stepsEach = 10;
const inFlight = [8, 32];
const limitProcesses = 2;

interface Round {
  /** Steps a second. */
  rate: number;
  /** What one step cost; null for the limit, which has no database. */
  usage: Usage | null;
}

type Rounds = Record<string, Round[]>;

export const benchmark: Benchmark = {
  title: 'Steps',
  async run(options) {
    const executions = scaled(200, options.short);
    const steps = executions * stepsEach;
    const database = await startDatabase();
    try {
      const conditions = await conditionsOf(database);
      const contenders = await startStepContenders(database);
      const limit = await startLimit(limitProcesses);
      const turns: Record<string, () => Promise<Round>> = {};
      for (const atOnce of inFlight) {
        for (const { name, databaseUrl, pid, run } of contenders) {
          turns[`${name} ${atOnce}`] = async () => {
            let took = 0;
            const usage = await usageOf(database, databaseUrl, [pid], steps, async () => {
              took = await run({ executions, steps: stepsEach, atOnce });
            });
            return { rate: (steps * 1_000) / took, usage };
          };
        }
      }
      turns.limit = async () => ({ rate: (steps * 1_000) / (await limit.run(steps)), usage: null });
      const rounds = await interleave(options, turns);
      for (const { stop } of [...contenders, limit]) await stop();
      return [
        `\`npm run bench -- steps\`: ${executions} executions of ${stepsEach} job functions over ${workspaces.length} workspaces, every step in a fresh isolate and`,
        `with one committed record. Medians of ${options.rounds} interleaved rounds.`,
        '',
        ...conditions.lines,
        peerLine(),
        `- The limit: isolated-vm alone in ${limitProcesses} processes, with the same globals and the same bundle from V8's code cache.`,
        '',
        ...rateLines(rounds),
        '',
        'What a step costs: core time, ms, of the server (or the peer), of its cells and of PostgreSQL; and of the database.',
        '',
        ...costLines(rounds),
        '',
        ...targetLines(rounds),
      ];
    } finally {
      await database.stop();
    }
  },
};

const ratesOf = (rounds: Rounds, name: string) => rounds[name]!.map(({ rate }) => rate);
const ratio = (rounds: Rounds, name: string, to: string) => median(ratesOf(rounds, name)) / median(ratesOf(rounds, to));
const ours = (atOnce: number) => `jobcell ${atOnce}`;
const busiest = Math.max(...inFlight);

function rateLines(rounds: Rounds): string[] {
  const rows = Object.keys(rounds).map((key) => {
    const [name, atOnce] = key.split(' ') as [string, string?];
    const rates = ratesOf(rounds, key);
    const to = ratio(rounds, ours(Number(atOnce ?? busiest)), key);
    return [name, atOnce ?? '', figure(median(rates)), range(rates), to.toFixed(2)];
  });
  return table(['', 'in flight', 'steps/s', 'range', 'jobcell to it'], rows);
}

function costLines(rounds: Rounds): string[] {
  const columns = ['server', 'cells', 'postgres', 'transactions', 'statements'] as const;
  const rows = Object.entries(rounds)
    .filter(([, list]) => list.every(({ usage }) => usage !== null))
    .map(([key, list]) => [
      ...key.split(' '),
      ...columns.map((column) => median(list.map(({ usage }) => usage![column])).toFixed(2)),
    ]);
  return table(['', 'in flight', 'server', 'cells', 'PostgreSQL', 'writing transactions', 'statements'], rows);
}

const targetLines = (rounds: Rounds): string[] =>
  targets([
    ...inFlight.map((atOnce) => ({
      what: `of DBOS, ${atOnce} in flight`,
      must: 0.35,
      goal: 0.45,
      reached: ratio(rounds, ours(atOnce), `dbos ${atOnce}`),
    })),
    {
      what: `of the limit, ${busiest} in flight`,
      must: 0.4,
      goal: 0.5,
      moonshot: 0.65,
      reached: ratio(rounds, ours(busiest), 'limit'),
    },
  ]);
