/**
 * The resume of an execution after 1,000 recorded steps: how many recorded answers a second its replay is given. The
 * time is the database's, from the resolve of a wait to the commit of the next one, and so has everything in it: the
 * claim, the reading of the records, the start of an isolate and the commit. Beside it the same with no recorded step.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { conditionsOf } from './harness/conditions.ts';
import { type BenchDatabase, startDatabase } from './harness/database.ts';
import { figure, median, range, table, targets } from './harness/report.ts';
import { type Client, openClient, putWorkspace, startServer } from './harness/server.ts';
import { stepScript } from './harness/step-work.ts';

const main = `globalThis.main = async ({ steps, waits }) => {
  for (let n = 0; n < steps; n++) tailor.workflow.execJobFunction('step', { n });
  for (let n = 0; n < waits; n++) await tailor.workflow.wait('round-' + n);
  return null;
};`;

export const benchmark: Benchmark = {
  title: 'Replay',
  async run({ rounds, short }) {
    const steps = scaled(1_000, short);
    const database = await startDatabase();
    try {
      const conditions = await conditionsOf(database);
      const url = await database.create('ours');
      const server = await startServer(url, database.folder);
      const client = openClient(server.url, 4);
      await putWorkspace(client, 'replay', { main, step: stepScript }, ['main']);
      const none = await startWaiting(client, database, url, 0, rounds + 2);
      const many = await startWaiting(client, database, url, steps, rounds + 2);
      for (let round = 0; round <= rounds; round++) {
        await none.resolve(round);
        await many.resolve(round);
      }
      // The first resume only warms up.
      const fixed = (await none.resumes()).slice(1);
      const whole = (await many.resumes()).slice(1);
      client.close();
      await server.stop();
      const answers = whole.map((ms) => (steps * 1_000) / ms);
      const answersOnly = (steps * 1_000) / Math.max(0.1, median(whole) - median(fixed));
      return [
        `\`npm run bench -- replay\`: an execution with ${figure(steps)} recorded steps is resumed, from the resolve of its wait to the commit`,
        `of the next one. Medians of ${rounds} interleaved rounds.`,
        '',
        ...conditions.lines,
        '',
        ...table(
          ['', 'a resume, ms', 'range', 'recorded answers/s', 'range'],
          [
            ['no recorded step', median(fixed).toFixed(1), range(fixed), '', ''],
            [
              `${figure(steps)} recorded steps`,
              median(whole).toFixed(1),
              range(whole),
              figure(median(answers)),
              range(answers),
            ],
            ['the difference', (median(whole) - median(fixed)).toFixed(1), '', figure(answersOnly), ''],
          ],
        ),
        '',
        ...targets([
          {
            what: 'recorded answers/s, the whole resume',
            must: 10_000,
            goal: 20_000,
            moonshot: 40_000,
            reached: median(answers),
          },
        ]),
      ];
    } finally {
      await database.stop();
    }
  },
};

interface Waiting {
  /** Resolves this wait and resolves when the next one is committed. */
  resolve(round: number): Promise<void>;
  /** From each resolve to the next wait, ms. */
  resumes(): Promise<number[]>;
}

/** Starts an execution that records its steps and then waits. */
async function startWaiting(
  client: Client,
  database: BenchDatabase,
  url: string,
  steps: number,
  waits: number,
): Promise<Waiting> {
  const path = '/v1/workspaces/replay';
  const { executionId } = await client.send<{ executionId: string }>('POST', `${path}/workflows/main/start`, {
    args: { steps, waits },
  });
  const waitsFor = async (round: number) => {
    for (;;) {
      const [row] = await database.query<{ status: string; waits: number }>(
        url,
        `select e.status, (select count(*)::int from jobcell.journal j
                           where j.execution_id = e.id and kind = 'wait') as waits
         from jobcell.executions e where id = $1`,
        [executionId],
      );
      if (row!.status === 'WAITING' && row!.waits === round + 1) return;
      if (row!.status === 'FAILED' || row!.status === 'SUCCESS') throw new Error(`The execution is ${row!.status}.`);
      await sleep(50);
    }
  };
  await waitsFor(0);
  return {
    resolve: async (round) => {
      await client.send('POST', `${path}/executions/${executionId}/waits/round-${round}/resolve`, { result: round });
      await waitsFor(round + 1);
    },
    resumes: async () => {
      const rows = await database.query<{ ms: number | null }>(
        url,
        `select extract(epoch from lead(started_at) over (order by position) - finished_at)::float8 * 1000 as ms
         from jobcell.journal where execution_id = $1 and kind = 'wait' order by position`,
        [executionId],
      );
      return rows.flatMap(({ ms }) => (ms === null ? [] : [ms]));
    },
  };
}
