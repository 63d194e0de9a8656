/**
 * Resident memory of a server and of its cells with 0, 50 and 200 runs that do not end: suspended (their key's slot is
 * taken), waiting (for a `resolve`) and blocked (in a nested job function, which keeps its cell). And of a server whose
 * database holds 1 million finished executions, with what a start then takes.
 *
 * One run, not rounds: memory does not jitter as times do.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Benchmark, scaled } from './harness/benchmark.ts';
import { conditionsOf } from './harness/conditions.ts';
import { type BenchDatabase, startDatabase } from './harness/database.ts';
import { load } from './harness/load.ts';
import { childrenOf, memoryOf } from './harness/processes.ts';
import { figure, median, table, targets } from './harness/report.ts';
import { type Client, openClient, putWorkspace, runExecution, startServer } from './harness/server.ts';
import { stepScript } from './harness/step-work.ts';

/** A workspace runs so many executions of one workflow at once, and 200 are to be blocked. */
const workspaces = Array.from({ length: 10 }, (_, n) => `memory-${n}`);
const cells = 256;

const never = `globalThis.main = () => new Promise((resolve) => setTimeout(resolve, 3_600_000));`;
const scripts = {
  never,
  suspended: `globalThis.main = () => tailor.workflow.execJobFunction('never', null, { executionPolicyKey: 'one' });`,
  waiting: `globalThis.main = async () => { await tailor.workflow.wait('never'); return null; };`,
  blocked: `globalThis.main = () => tailor.workflow.execJobFunction('never', null);`,
  step: stepScript,
  one: `globalThis.main = () => tailor.workflow.execJobFunction('step', { n: 1 });`,
};

/** The status of each kind once it stands still. */
const statusOf = { suspended: 'PENDING_RESUME', waiting: 'WAITING', blocked: 'RUNNING' } as const;
type Kind = keyof typeof statusOf;

/** Idle cells go after 30 s; memory is read when that is past, so that only what is held is counted. */
const settleMs = 35_000;
const settleTimeoutMs = 300_000;

interface Held {
  /** MB. */
  server: number;
  cells: number;
  cellsMb: number;
}

export const benchmark: Benchmark = {
  title: 'Memory',
  async run({ short }) {
    const database = await startDatabase();
    try {
      const conditions = await conditionsOf(database);
      const counts = [0, 50, 200].map((count) => scaled(count, short));
      const held = new Map<Kind, Held[]>();
      // Side by side, since most of it is waiting.
      await Promise.all(
        (Object.keys(statusOf) as Kind[]).map(async (kind) => {
          held.set(kind, []);
          held.set(kind, await measure(database, kind, counts, short));
        }),
      );
      const finished = scaled(1_000_000, short);
      const { before, after } = await measureFinished(database, finished);
      const rows = [...held].flatMap(([kind, list]) =>
        list.map(({ server, cells, cellsMb }, n) => [
          kind,
          String(counts[n]),
          server.toFixed(0),
          String(cells),
          cellsMb.toFixed(0),
        ]),
      );
      return [
        '`npm run bench -- memory`: resident memory with runs that do not end, each kind on a server of its own. Of cells, the part',
        `that is not shared with others. With the suspended ones, ${workspaces.length} further runs hold the slots, and so a cell each. One run.`,
        '',
        ...conditions.lines,
        '',
        ...table(['runs', '', 'server, MB', 'cells', 'cells, MB'], rows),
        '',
        'Finished executions in the database, and a server that was started on it and ran 200 executions of one step.',
        'A difference of less than a tenth is taken as flat.',
        '',
        ...table(
          ['finished', 'server, MB', 'a start, p50, ms'],
          [
            ['0', before.server.toFixed(0), before.startMs.toFixed(1)],
            [figure(finished), after.server.toFixed(0), after.startMs.toFixed(1)],
          ],
          0,
        ),
        '',
        ...targets([
          {
            what: `server's memory, ${figure(finished)} finished to none`,
            most: true,
            must: 1.1,
            goal: 1.1,
            reached: after.server / before.server,
          },
        ]),
      ];
    } finally {
      await database.stop();
    }
  },
};

async function measure(database: BenchDatabase, kind: Kind, counts: number[], short: boolean): Promise<Held[]> {
  const url = await database.create(`memory_${kind}`);
  const server = await startServer(url, database.folder, { JOBCELL_CELLS: String(cells) });
  const client = openClient(server.url, 16);
  for (const workspace of workspaces) await putHeld(client, workspace);
  // One run has the only slot of the key in each workspace, so the others are suspended.
  const holders = kind === 'suspended' ? workspaces.length : 0;
  const start = (n: number) => startRun(client, workspaces[n % workspaces.length]!, kind);
  await load(holders, 16, start);
  await settled(database, url, 'RUNNING', holders);
  const held: Held[] = [];
  let started = 0;
  for (const count of counts) {
    await load(count - started, 16, start);
    started = count;
    await settled(database, url, statusOf[kind], count);
    await sleep(scaled(settleMs, short));
    held.push(heldBy(server.pid));
  }
  client.close();
  await server.stop();
  return held;
}

async function putHeld(client: Client, workspace: string): Promise<void> {
  await putWorkspace(client, workspace, scripts, ['suspended', 'waiting', 'blocked', 'one']);
  const policy = { matchType: 'exact', concurrencyPolicy: { maxConcurrentExecutions: 1 } };
  await client.send('PUT', `/v1/workspaces/${workspace}/execution-policies/one`, policy);
}

const startRun = (client: Client, workspace: string, workflow: Kind) =>
  client.send('POST', `/v1/workspaces/${workspace}/workflows/${workflow}/start`);

/** Waits until so many executions have this status; of running ones, until their nested job function has begun. */
async function settled(database: BenchDatabase, url: string, status: string, count: number): Promise<void> {
  for (const begun = performance.now(); performance.now() - begun < settleTimeoutMs; await sleep(100)) {
    const [row] = await database.query<{ count: number }>(
      url,
      `select count(*)::int as count from jobcell.executions e
       where status = $1 and (status <> 'RUNNING' or exists (
         select 1 from jobcell.journal j where j.execution_id = e.id and j.status = 'RUNNING' and j.name = 'never'))`,
      [status],
    );
    if (row!.count === count) return;
  }
  throw new Error(`Not ${count} executions became ${status} within ${settleTimeoutMs / 1_000} s.`);
}

function heldBy(pid: number): Held {
  const children = childrenOf(pid);
  return {
    server: memoryOf(pid).rss,
    cells: children.length,
    cellsMb: children.reduce((sum, child) => sum + memoryOf(child).own, 0),
  };
}

interface Idle {
  /** MB. */
  server: number;
  startMs: number;
}

/** With none and with so many finished executions, a fresh server each time, which has done the same. */
async function measureFinished(database: BenchDatabase, count: number): Promise<{ before: Idle; after: Idle }> {
  const url = await database.create('memory_finished');
  const [workspace] = workspaces as [string];
  const look = async (): Promise<Idle> => {
    const server = await startServer(url, database.folder);
    const client = openClient(server.url, 1);
    await putHeld(client, workspace);
    const times: number[] = [];
    for (let n = 0; n < 200; n++) times.push(await load(1, 1, () => runExecution(client, workspace, 'one', null)));
    const idle = { server: memoryOf(server.pid).rss, startMs: median(times) };
    client.close();
    await server.stop();
    return idle;
  };
  const before = await look();
  await copyFinished(database, url, count);
  return { before, after: await look() };
}

/** Copies of one finished execution, without its steps, all columns but its id the same. */
async function copyFinished(database: BenchDatabase, url: string, count: number): Promise<void> {
  const columns = await database.query<{ name: string }>(
    url,
    `select quote_ident(column_name) as name from information_schema.columns
     where table_schema = 'jobcell' and table_name = 'executions' and column_name <> 'id' and is_generated = 'NEVER'`,
  );
  const list = columns.map(({ name }) => name).join(', ');
  await database.query(
    url,
    `insert into jobcell.executions (id, ${list})
     select uuidv7(), ${list} from (select ${list} from jobcell.executions where status = 'SUCCESS' limit 1) one,
            generate_series(1, $1)`,
    [count],
  );
  await database.query(url, 'analyze jobcell.executions');
}
