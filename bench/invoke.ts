/**
 * Invocations of a hello-world function over HTTP, a fresh isolate for each: invocations a second, p50 and p99, by 1 and
 * by 16 connections. Beside it: workerd, where a Worker Loader makes an isolate for each request, and fastify with a bare
 * isolate of isolated-vm in the same process (no globals, no limit of time, no record).
 *
 * Then fairness, jobcell alone: the same beside CPU hogs of another workspace on every cell that it can get.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { conditionsOf } from './harness/conditions.ts';
import { startDatabase } from './harness/database.ts';
import { interleave, load } from './harness/load.ts';
import { installPeers, startPeer, versionOf } from './harness/peer.ts';
import { figure, median, quantile, range, table, targets } from './harness/report.ts';
import { type Client, openClient, putWorkspace, startServer } from './harness/server.ts';
import { startWorkerd } from './harness/workerd.ts';

const connections = [1, 16];
const hello = `globalThis.main = ({ name }) => ({ hello: name });`;
const hog = `globalThis.main = ({ until }) => { while (Date.now() < until); return 1; };`;
const hogMs = 12_000;
/** What the hogs get until the function is measured beside them. */
const settleMs = 4_000;

interface Round {
  /** Invocations a second. */
  rate: number;
  /** ms. */
  times: number[];
}

export const benchmark: Benchmark = {
  title: 'Invoke',
  async run(options) {
    installPeers();
    const database = await startDatabase();
    try {
      const conditions = await conditionsOf(database);
      // Hogs must live as long as they are measured against.
      const env = { JOBCELL_FUNCTION_CPU_MS: '60000' };
      const server = await startServer(await database.create('ours'), database.folder, env);
      const setup = openClient(server.url, 100);
      await putWorkspace(setup, 'one', {}, []);
      await setup.send('PUT', '/v1/workspaces/one/functions/hello', { script: hello });
      const workerd = await startWorkerd();
      const fastify = await startPeer('fastify.ts');
      const contenders = {
        jobcell: { url: server.url, path: '/v1/workspaces/one/functions/hello/invoke' },
        workerd: { url: workerd.url, path: '/' },
        fastify: { url: await fastify.ask<string>('url'), path: '/' },
      };
      const turns: Record<string, () => Promise<Round>> = {};
      for (const atOnce of connections) {
        for (const [name, { url, path }] of Object.entries(contenders)) {
          const count = scaled(atOnce === 1 ? 500 : 2_000, options.short);
          turns[`${name} ${atOnce}`] = () => invoke(openClient(url, atOnce), path, count, atOnce);
        }
      }
      const rounds = await interleave(options, turns);
      const besideHogs = await invokeBesideHogs(setup, openClient(server.url, 1), scaled(20, options.short));
      setup.close();
      await Promise.all([server.stop(), workerd.stop(), fastify.stop()]);
      return lines(rounds, besideHogs, options.rounds, conditions.lines);
    } finally {
      await database.stop();
    }
  },
};

async function invoke(client: Client, path: string, count: number, atOnce: number): Promise<Round> {
  const times: number[] = [];
  const took = await load(count, atOnce, async () => {
    const begun = performance.now();
    const { result } = await client.send<{ result: { hello: string } }>('POST', path, { args: { name: 'Ada' } });
    times.push(performance.now() - begun);
    if (result.hello !== 'Ada') throw new Error(`${path} answered ${JSON.stringify(result)}.`);
  });
  client.close();
  return { rate: (count * 1_000) / took, times };
}

/** Runs of another workspace compute on all cells that they get, workflows as well as functions. @returns times, ms. */
async function invokeBesideHogs(setup: Client, client: Client, count: number): Promise<number[]> {
  await putWorkspace(setup, 'hogs', { hog }, ['hog']);
  await setup.send('PUT', '/v1/workspaces/hogs/functions/hog', { script: hog });
  const until = Date.now() + hogMs;
  await load(100, 16, () => setup.send('POST', '/v1/workspaces/hogs/workflows/hog/start', { args: { until } }));
  // What finds no cell in time is refused, as it should be.
  const hogs = Array.from({ length: 60 }, () =>
    setup.send('POST', '/v1/workspaces/hogs/functions/hog/invoke', { args: { until } }).catch(() => null),
  );
  await sleep(settleMs);
  const { times } = await invoke(client, '/v1/workspaces/one/functions/hello/invoke', count, 1);
  await Promise.all(hogs);
  return times;
}

function lines(rounds: Record<string, Round[]>, besideHogs: number[], count: number, conditions: string[]): string[] {
  const rates = (key: string) => rounds[key]!.map(({ rate }) => rate);
  const ratio = (atOnce: number, to: string) => median(rates(`jobcell ${atOnce}`)) / median(rates(`${to} ${atOnce}`));
  const rows = Object.keys(rounds).map((key) => {
    const [name, atOnce] = key.split(' ') as [string, string];
    const share = (of: number) => median(rounds[key]!.map(({ times }) => quantile(times, of))).toFixed(1);
    const to = ratio(Number(atOnce), name).toFixed(2);
    return [name, atOnce, figure(median(rates(key))), range(rates(key)), share(0.5), share(0.99), to];
  });
  return [
    `\`npm run bench -- invoke\`: a hello-world over HTTP, a fresh isolate for each request. Medians of ${count} interleaved rounds.`,
    '',
    ...conditions,
    `- Peers: ${versionOf('workerd')} with a Worker Loader, and fastify with a bare isolate of isolated-vm in its own process: no globals, no limit of time,`,
    '  no record of the invocation. Neither has a database.',
    '',
    ...table(['', 'connections', 'a second', 'range', 'p50, ms', 'p99, ms', 'jobcell to it'], rows),
    '',
    `Beside hogs of another workspace on every cell that it can get, 1 connection: p50 ${figure(quantile(besideHogs, 0.5))} ms, at most ${figure(Math.max(...besideHogs))} ms.`,
    '',
    ...targets(
      connections.flatMap((atOnce) => [
        {
          what: `of fastify and bare, ${atOnce} connections`,
          must: 0.7,
          goal: 0.85,
          moonshot: 1,
          reached: ratio(atOnce, 'fastify'),
        },
        { what: `of workerd, ${atOnce} connections`, must: 1, goal: 1, reached: ratio(atOnce, 'workerd') },
      ]),
    ),
  ];
}
