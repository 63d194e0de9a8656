/**
 * Dispatches a second without bodies: the committed start and end of a step, by the server's own step writers, in one hot
 * workspace through 2 servers, with 32 and 100 executions at it. With 0, 1 and 3 execution policies on the key of every
 * dispatch, so that it takes its slots of so many pools besides the workspace's own.
 *
 * Beside it: single-row inserts by as many connections, what PostgreSQL commits when nothing is to be kept apart.
 */
import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { uuidv7 } from 'uuidv7';
import { type ClaimedExecution, claimExecutions } from '../src/store/claims.ts';
import { openPool, type Pool } from '../src/store/database.ts';
import { insertExecution } from '../src/store/executions.ts';
import { migrate } from '../src/store/migrate.ts';
import { putPolicy } from '../src/store/policies.ts';
import { registerServer } from '../src/store/servers.ts';
import { createStepWriter, type StepWriter } from '../src/store/step-writer.ts';
import { putWorkspace, type Workspace } from '../src/store/workspaces.ts';
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { commitsPerSecond, conditionsOf } from './harness/conditions.ts';
import { startDatabase } from './harness/database.ts';
import { interleave } from './harness/load.ts';
import { figure, median, range, table, targets } from './harness/report.ts';

/** Servers, each with a step writer and a pool of connections of its own. */
const servers = 2;
const concurrency = [32, 100];

/** The policies that cover the key, for each number of them. */
const policySets: Record<number, [name: string, matchType: 'exact' | 'prefix'][]> = {
  0: [],
  1: [['hot.key.one', 'exact']],
  3: [
    ['hot.key.one', 'exact'],
    ['hot.key', 'prefix'],
    ['hot', 'prefix'],
  ],
};

interface Hot {
  key: string | null;
  claims: ClaimedExecution[];
  position: number;
}

/** A workspace with so many executions that run, and nothing that would be full. */
async function hotWorkspace(pool: Pool, executions: number, policies: number): Promise<Hot> {
  const workspace: Workspace = await putWorkspace(pool, `hot-${randomBytes(5).toString('hex')}`);
  for (const [name, matchType] of policySets[policies]!) {
    const concurrencyPolicy = { maxConcurrentExecutions: 1_000 };
    await putPolicy(pool, workspace, name, { key: undefined, matchType, concurrencyPolicy });
  }
  await pool.query(`insert into workflows (workspace_id, name, main_job_function) values ($1, 'flow', 'main')`, [
    workspace.id,
  ]);
  await pool.query(`update pools set cap = 10000 where workspace_id = $1`, [workspace.id]);
  for (let n = 0; n < executions; n++) {
    await insertExecution(pool, {
      id: uuidv7(),
      workspaceId: workspace.id,
      workflow: 'flow',
      args: '{}',
      invoker: null,
      depth: 0,
      parent: null,
      replay: 'auto',
      seed: randomBytes(32),
      idempotencyKey: null,
    });
  }
  const server = uuidv7();
  await registerServer(pool, server, 3_600_000);
  const { claimed: claims } = await claimExecutions(pool, server, executions);
  if (claims.length !== executions) throw new Error(`claimed ${claims.length} of ${executions}`);
  return { key: policies === 0 ? null : 'hot.key.one', claims, position: 0 };
}

/** Starts and ends steps of all executions for a while, each one after the other. @returns dispatches a second. */
async function dispatches(writers: StepWriter[], hot: Hot, forMs: number): Promise<number> {
  const keys = hot.key === null ? [] : [hot.key];
  let count = 0;
  const begun = performance.now();
  await Promise.all(
    hot.claims.map(async (claim, index) => {
      const writer = writers[index % writers.length]!;
      while (performance.now() - begun < forMs) {
        const position = hot.position++;
        const path = `main/${position}:step`;
        const { workspaceId, executionId, fence } = claim;
        const outcome = await writer.start({
          workspaceId,
          executionId,
          fence,
          stack: { frames: 2, keys },
          path,
          parentPath: 'main',
          position,
          id: uuidv7(),
          name: 'step',
          args: '{}',
          executionPolicyKey: hot.key,
          functionVersion: 1,
          memoryLimitBytes: 268_435_456,
          run: 1,
          recordedRun: 1,
          clock: null,
          logs: [],
        });
        if (outcome !== 'started') throw new Error(outcome);
        await writer.end({
          workspaceId,
          executionId,
          fence,
          stack: { frames: 1, keys: [] },
          path,
          run: 1,
          status: 'SUCCESS',
          result: '1',
          error: null,
          usage: { cpuMs: 1, wallMs: 1, peakMemoryBytes: 1, memoryLimitBytes: 1 },
          failingPosition: null,
          logs: [],
        });
        count++;
      }
    }),
  );
  return (count * 1_000) / (performance.now() - begun);
}

export const benchmark: Benchmark = {
  title: 'Slots',
  async run(options) {
    const roundMs = scaled(2_000, options.short);
    const database = await startDatabase();
    const url = await database.create('slots');
    const onError = (error: Error) => {
      throw error;
    };
    const pools = Array.from({ length: servers }, () => openPool(url, { max: 10, onError }));
    const [pool] = pools as [Pool];
    try {
      const conditions = await conditionsOf(database);
      await migrate(pool, pino({ level: 'warn' }, pino.destination(2)));
      const plain = await database.create('inserts');
      await database.query(
        plain,
        'create table bench_rows (id bigint generated always as identity primary key, text text)',
      );
      const writers = pools.map((one) => createStepWriter(one));
      const turns: Record<string, () => Promise<number>> = {};
      for (const concurrent of concurrency) {
        for (const policies of Object.keys(policySets).map(Number)) {
          const hot = await hotWorkspace(pool, concurrent, policies);
          turns[`${concurrent} ${policies}`] = () => dispatches(writers, hot, roundMs);
        }
        turns[`${concurrent} inserts`] = () => commitsPerSecond(plain, concurrent, roundMs);
      }
      const rates = await interleave(options, turns);
      const rows = Object.entries(rates).map(([key, list]) => {
        const [concurrent, policies] = key.split(' ') as [string, string];
        const toInserts = median(list) / median(rates[`${concurrent} inserts`]!);
        return [
          concurrent,
          policies === 'inserts' ? 'single-row inserts' : policies,
          figure(median(list)),
          range(list),
          toInserts.toFixed(2),
        ];
      });
      return [
        "`npm run bench -- slots`: dispatches without bodies, the committed start and end of a step by the servers' own step",
        `writers, ${servers} servers, in one workspace. Medians of ${options.rounds} interleaved rounds of ${roundMs / 1_000} s.`,
        '',
        ...conditions.lines,
        '',
        ...table(['concurrent', 'policies on the key', 'a second', 'range', 'to the inserts'], rows, 0),
        '',
        ...targets(
          concurrency.map((concurrent) => ({
            what: `dispatches/s, 3 policies, ${concurrent} concurrent`,
            must: 5_000,
            goal: 10_000,
            moonshot: 20_000,
            reached: median(rates[`${concurrent} 3`]!),
          })),
        ),
      ];
    } finally {
      await Promise.all(pools.map((one) => one.end()));
      await database.stop();
    }
  },
};
