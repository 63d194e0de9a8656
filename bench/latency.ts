/**
 * From the HTTP start of a workflow of one step, with `?wait`, to its result: one after the other, p50 and p99. Beside
 * it, on the same PostgreSQL: a workflow of one step of DBOS Transact, called in its own process without HTTP.
 */
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { conditionsOf } from './harness/conditions.ts';
import { startDatabase } from './harness/database.ts';
import { interleave, load } from './harness/load.ts';
import { installPeers, startPeer, versionOf } from './harness/peer.ts';
import { median, quantile, range, table, targets } from './harness/report.ts';
import { openClient, runExecution, startServer } from './harness/server.ts';
import { putStepWork, workspaces } from './harness/step-work.ts';

export const benchmark: Benchmark = {
  title: 'Latency',
  async run(options) {
    const executions = scaled(300, options.short);
    installPeers();
    const database = await startDatabase();
    try {
      const conditions = await conditionsOf(database);
      const server = await startServer(await database.create('ours'), database.folder);
      const client = openClient(server.url, 1);
      await putStepWork(client);
      const peer = await startPeer('dbos.mjs', { PEER_DATABASE_URL: await database.create('dbos') });
      const rounds = await interleave(options, {
        'jobcell, over HTTP': async () => {
          const times: number[] = [];
          for (let n = 0; n < executions; n++) {
            times.push(await load(1, 1, () => runExecution(client, workspaces[0]!, 'steps', { steps: 1 })));
          }
          return times;
        },
        'DBOS, in process': () => peer.ask<number[]>('latency', { executions, steps: 1 }),
      });
      client.close();
      await server.stop();
      await peer.stop();
      const each = (name: string, share: number) => rounds[name]!.map((times) => quantile(times, share));
      const rows = Object.keys(rounds).map((name) => [
        name,
        ...[0.5, 0.99].flatMap((share) => [median(each(name, share)).toFixed(1), range(each(name, share))]),
      ]);
      return [
        '`npm run bench -- latency`: from the start of a workflow of one step to its result, one after the other, ms. Medians of',
        `${options.rounds} interleaved rounds of ${executions} executions.`,
        '',
        ...conditions.lines,
        `- The peer: ${versionOf('@dbos-inc/dbos-sdk')}.`,
        '',
        ...table(['', 'p50', 'range', 'p99', 'range'], rows),
        '',
        ...targets([
          {
            what: 'p50 over HTTP',
            unit: 'ms',
            most: true,
            must: 5,
            goal: 3.7,
            moonshot: 3,
            reached: median(each('jobcell, over HTTP', 0.5)),
          },
        ]),
      ];
    } finally {
      await database.stop();
    }
  },
};
