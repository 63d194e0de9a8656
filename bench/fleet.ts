/**
 * The work of `steps`, 32 executions under way, on 1, 2 and 3 servers over one database, all on the same machine: steps
 * a second, and what a step costs PostgreSQL. More servers have no more cores here, so what is asked is that they do not
 * stand in each other's way.
 */
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { conditionsOf } from './harness/conditions.ts';
import { startDatabase } from './harness/database.ts';
import { interleave, load } from './harness/load.ts';
import { figure, median, range, table, targets } from './harness/report.ts';
import { openClient, runExecution, startServer } from './harness/server.ts';
import { putStepWork, workspaces } from './harness/step-work.ts';
import { type Usage, usageOf } from './harness/usage.ts';

const fleets = [1, 2, 3];
const stepsEach = 10;
const inFlight = 32;

export const benchmark: Benchmark = {
  title: 'Fleet',
  async run(options) {
    const executions = scaled(200, options.short);
    const steps = executions * stepsEach;
    const database = await startDatabase();
    try {
      const conditions = await conditionsOf(database);
      const turns: Record<string, () => Promise<{ rate: number; usage: Usage }>> = {};
      for (const size of fleets) {
        turns[size] = async () => {
          // Servers that only wait would still look after their leases, so there are none but those of this turn.
          const name = `fleet_${size}_${Date.now()}`;
          const url = await database.create(name);
          const servers = [];
          for (let n = 0; n < size; n++) servers.push(await startServer(url, database.folder));
          const clients = servers.map((server) => openClient(server.url, inFlight));
          await putStepWork(clients[0]!);
          const run = (count: number) =>
            load(count, inFlight, (n) =>
              runExecution(clients[n % size]!, workspaces[n % workspaces.length]!, 'steps', { steps: stepsEach }),
            );
          // Cells and connections get warm.
          await run(Math.ceil(executions / 5));
          let took = 0;
          const pids = servers.map(({ pid }) => pid);
          const usage = await usageOf(database, url, pids, steps, async () => {
            took = await run(executions);
          });
          for (const client of clients) client.close();
          await Promise.all(servers.map((server) => server.stop()));
          return { rate: (steps * 1_000) / took, usage };
        };
      }
      const rounds = await interleave(options, turns);
      const rates = (size: number) => rounds[size]!.map(({ rate }) => rate);
      const cost = (size: number, of: keyof Usage) => median(rounds[size]!.map(({ usage }) => usage[of])).toFixed(2);
      const ratio = (size: number) => median(rates(size)) / median(rates(1));
      return [
        `\`npm run bench -- fleet\`: ${executions} executions of ${stepsEach} steps, ${inFlight} in flight, on so many servers of one database and one machine.`,
        `Medians of ${options.rounds} interleaved rounds. A difference of less than a tenth is taken as noise.`,
        '',
        ...conditions.lines,
        '',
        ...table(
          ['servers', 'steps/s', 'range', 'to one', 'statements a step', 'writing transactions', 'PostgreSQL, ms'],
          fleets.map((size) => [
            String(size),
            figure(median(rates(size))),
            range(rates(size)),
            ratio(size).toFixed(2),
            cost(size, 'statements'),
            cost(size, 'transactions'),
            cost(size, 'postgres'),
          ]),
          0,
        ),
        '',
        ...targets(
          fleets.slice(1).map((size) => ({
            what: `steps/s of ${size} servers, to one`,
            must: 0.9,
            goal: 1,
            reached: ratio(size),
          })),
        ),
      ];
    } finally {
      await database.stop();
    }
  },
};
