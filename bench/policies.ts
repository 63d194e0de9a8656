/**
 * What caps and execution policies cost, `npm run bench -- policies`: on an embedded PostgreSQL that keeps its default
 * durability.
 *
 * - Dispatches a second without bodies: the committed start and end of a step, by the server's own step writers, in one
 *   hot workspace, with 0, 1 and 3 policies on the key; beside it, single-row inserts by as many connections.
 * - 2,000 executions over 10 workspaces with 4 keys each, on one real server: the time that the caps allow, and the time it took.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { uuidv7 } from 'uuidv7';
import { type ClaimedExecution, claimExecutions } from '../src/store/claims.ts';
import { openPool, type Pool } from '../src/store/database.ts';
import { startEmbeddedPostgres } from '../src/store/embedded.ts';
import { insertExecution } from '../src/store/executions.ts';
import { migrate } from '../src/store/migrate.ts';
import { putPolicy } from '../src/store/policies.ts';
import { registerServer } from '../src/store/servers.ts';
import { createStepWriter, type StepWriter } from '../src/store/step-writer.ts';
import { putWorkspace, type Workspace } from '../src/store/workspaces.ts';
import { machine } from './harness/conditions.ts';
import { median, writeSection } from './harness/report.ts';
import { loadUnderPolicies } from './policies-load.ts';

const rounds = Number(process.env.BENCH_ROUNDS ?? 5);
const roundMs = 2_000;
/** Servers, each with a step writer and a pool of connections of its own. */
const servers = 2;

const folder = mkdtempSync(join(tmpdir(), 'jobcell-bench-'));
const logger = pino({ level: 'warn' }, pino.destination(2));
const postgres = await startEmbeddedPostgres(join(folder, 'database'), logger);
const open = () =>
  openPool(postgres.url, {
    max: 10,
    onError: (error) => {
      throw error;
    },
  });
const pools = Array.from({ length: servers }, open);
const [pool] = pools as [Pool];

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
async function hotWorkspace(executions: number, policies: number): Promise<Hot> {
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
async function dispatches(writers: StepWriter[], hot: Hot): Promise<number> {
  const keys = hot.key === null ? [] : [hot.key];
  let count = 0;
  const begun = performance.now();
  await Promise.all(
    hot.claims.map(async (claim, index) => {
      const writer = writers[index % writers.length]!;
      while (performance.now() - begun < roundMs) {
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

/** Single-row inserts a second, each a transaction of its own. */
async function inserts(connections: number): Promise<number> {
  const own = openPool(postgres.url, { max: connections, onError: () => {} });
  await own.query('create table if not exists bench_rows (id uuid primary key, text text not null)');
  let count = 0;
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() - begun < roundMs) {
        await own.query({ name: 'row', text: 'insert into bench_rows values ($1, $2)', values: [uuidv7(), 'text'] });
        count++;
      }
    }),
  );
  const rate = (count * 1_000) / (performance.now() - begun);
  await own.end();
  return rate;
}

async function measureDispatches(): Promise<string[]> {
  const writers = pools.map((one) => createStepWriter(one));
  const lines = [
    '| concurrent | policies on the key | dispatches/s | range | beside no key |',
    '| ---: | ---: | ---: | ---: | ---: |',
  ];
  for (const concurrent of [32, 100]) {
    const counts = Object.keys(policySets).map(Number);
    const hot = new Map<number, Hot>();
    for (const policies of counts) hot.set(policies, await hotWorkspace(concurrent, policies));
    const rates = new Map(counts.map((policies) => [policies, [] as number[]]));
    const beside: number[] = [];
    for (let round = 0; round <= rounds; round++) {
      for (const policies of counts) {
        const rate = await dispatches(writers, hot.get(policies)!);
        // The first round only warms up.
        if (round > 0) rates.get(policies)!.push(rate);
      }
      if (round > 0) beside.push(await inserts(concurrent));
    }
    const none = median(rates.get(0)!);
    for (const [policies, of] of rates) {
      const ratio = (median(of) / none).toFixed(2);
      lines.push(`| ${concurrent} | ${policies} | ${perSecond(median(of))} | ${range(of)} | ${ratio} |`);
    }
    lines.push(`| ${concurrent} | single-row inserts | ${perSecond(median(beside))} | ${range(beside)} | |`);
  }
  return lines;
}

const perSecond = (rate: number) => Math.round(rate).toLocaleString('en-US');
const range = (of: number[]) => `${perSecond(Math.min(...of))} - ${perSecond(Math.max(...of))}`;

try {
  await migrate(pool, logger);
  const lines = await measureDispatches();
  console.log(lines.join('\n'));
  const load = process.env.BENCH_LOAD === '0' ? [] : await loadUnderPolicies(postgres.url);
  console.log(load.join('\n'));
  if (load.length > 0) {
    writeSection('policies', 'Policies', [
      `\`npm run bench -- policies\`, ${machine()}. An embedded PostgreSQL with its default durability.`,
      '',
      `Dispatches a second without bodies: the committed start and end of a step, through the step writers of ${servers} servers, in one`,
      `workspace. Medians of ${rounds} interleaved rounds of ${roundMs / 1_000} s.`,
      '',
      ...lines,
      '',
      ...load,
    ]);
  }
} finally {
  await Promise.all(pools.map((one) => one.end()));
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}
