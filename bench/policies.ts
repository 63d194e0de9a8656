/**
 * How close executions come to what their caps allow: 2,000 at once over 10 workspaces with 4 keys each and one slot a
 * key, on one real server. Each calls one step under its key, and the step sleeps; so the caps allow the time of the
 * steps one behind the other in their slots, and the rest is what handing over takes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { conditionsOf } from './harness/conditions.ts';
import { type BenchDatabase, startDatabase } from './harness/database.ts';
import { load } from './harness/load.ts';
import { table } from './harness/report.ts';
import { openClient, putWorkspace, startServer } from './harness/server.ts';

const workspaces = 10;
const keysPerWorkspace = 4;
const cap = 1;
const stepMs = [1_000, 3_000];

const main = `export const main = ({ key, ms }) => tailor.workflow.execJobFunction('step', { ms }, { executionPolicyKey: key });`;
const step = `export const main = ({ ms }) => new Promise((resolve) => setTimeout(resolve, ms, 1));`;

export const benchmark: Benchmark = {
  title: 'Policies',
  async run(options) {
    const executions = scaled(2_000, options.short);
    const database = await startDatabase();
    try {
      const conditions = await conditionsOf(database);
      const rows: string[][] = [];
      for (const ms of stepMs) rows.push(await measure(database, executions, scaled(ms, options.short)));
      return [
        `\`npm run bench -- policies\`: ${executions.toLocaleString('en-US')} executions at once, over ${workspaces} workspaces with ${keysPerWorkspace} keys each and ${cap === 1 ? '1 slot' : `${cap} slots`} a key,`,
        'on one server: main calls one step under its key, and the step sleeps. What the caps allow is the time of the steps',
        "one behind the other in their slots. A handover is from a step's end to the start of the next one in its slot, here",
        'of the second half: in the first, the mains of all executions begin, find their key taken and are suspended, which',
        'takes the cores for itself. One run.',
        '',
        ...conditions.lines,
        '',
        ...table(
          ['a step takes', 'caps allow', 'it took', 'of what caps allow', 'suspensions', 'handover p50', 'p90'],
          rows,
          0,
        ),
      ];
    } finally {
      await database.stop();
    }
  },
};

async function measure(database: BenchDatabase, executions: number, ms: number): Promise<string[]> {
  const url = await database.create(`policies_${ms}`);
  const server = await startServer(url, database.folder, { JOBCELL_CELLS: '64' });
  const client = openClient(server.url, 32);
  for (let n = 0; n < workspaces; n++) {
    await putWorkspace(client, `load-${n}`, { main, step }, ['main']);
    const policy = { matchType: 'prefix', concurrencyPolicy: { maxConcurrentExecutions: cap } };
    await client.send('PUT', `/v1/workspaces/load-${n}/execution-policies/tenant`, policy);
  }
  const begun = performance.now();
  await load(executions, 32, (n) => {
    const args = { key: `tenant.${Math.floor(n / workspaces) % keysPerWorkspace}`, ms };
    return client.send('POST', `/v1/workspaces/load-${n % workspaces}/workflows/main/start`, { args });
  });
  for (;;) {
    const [row] = await database.query<{ left: number; failed: number }>(
      url,
      `select count(*) filter (where finished_at is null)::int as left, count(*) filter (where status = 'FAILED')::int as failed
       from jobcell.executions`,
    );
    if (row!.failed > 0) throw new Error(`${row!.failed} executions failed`);
    if (row!.left === 0) break;
    await sleep(100);
  }
  const took = (performance.now() - begun) / 1_000;
  const [suspended] = await database.query<{ suspensions: number }>(
    url,
    'select sum(fence - 1)::int as suspensions from jobcell.executions',
  );
  const [handover] = await database.query<{ p50: number; p90: number }>(
    url,
    `with steps as (
       select started_at, extract(epoch from lead(started_at) over (
                partition by workspace_id, execution_policy_key order by started_at) - finished_at) * 1000 as gap
       from jobcell.journal where execution_policy_key is not null)
     select percentile_cont(0.5) within group (order by gap) as p50, percentile_cont(0.9) within group (order by gap) as p90
     from steps where started_at > (select percentile_disc(0.5) within group (order by started_at) from steps)`,
  );
  client.close();
  await server.stop();
  const allowed = (executions / workspaces / keysPerWorkspace / cap) * (ms / 1_000);
  return [
    `${ms / 1_000} s`,
    `${allowed.toFixed(0)} s`,
    `${took.toFixed(1)} s`,
    `${Math.round((100 * allowed) / took)} %`,
    suspended!.suspensions.toLocaleString('en-US'),
    `${Math.round(handover!.p50)} ms`,
    `${Math.round(handover!.p90)} ms`,
  ];
}
