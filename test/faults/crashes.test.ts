import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, describe, expect, test } from 'vitest';
import { Client, Workspace } from '../support/client.ts';
import { createDatabase } from '../support/database.ts';
import { startServer } from '../support/server.ts';
import { cellsOf, runningOf } from '../support/server-process.ts';
import { startWebServer } from '../support/web-server.ts';

const limitMs = 180_000;
const shortLease = { JOBCELL_LEASE_S: '8', JOBCELL_CELLS: '12', JOBCELL_FETCH_ALLOW: '127.0.0.1' };
/** Longer than any test: what happens, happens without the end of a lease. */
const endlessLease = { ...shortLease, JOBCELL_LEASE_S: '600' };

const scripts = {
  step: `
    export async function main({ n, ms, url }) {
      if (url) await fetch(url);
      await new Promise((resolve) => setTimeout(resolve, ms));
      if (url) await fetch(url);
      return n;
    }`,
  steps: `
    export function main({ steps, ...args }) {
      let sum = 0;
      for (let n = 0; n < steps; n++) sum += tailor.workflow.execJobFunction('step', { n, ...args });
      return sum;
    }`,
  starts: `
    export async function main({ count }) {
      const ids = [];
      for (let n = 0; n < count; n++) ids.push(await tailor.workflow.startWorkflow('started', { n }));
      return ids;
    }`,
  started: 'export const main = ({ n }) => n;',
};

async function connect(databaseUrl: string): Promise<pg.Client> {
  const database = new pg.Client(databaseUrl);
  await database.connect();
  afterAll(() => database.end());
  return database;
}

/** Two servers on one database. The workspace is seen through the second one; `throughFirst` is the same one. */
async function startPair(env: Record<string, string>) {
  const databaseUrl = await createDatabase();
  const first = await startServer({ databaseUrl, env });
  const second = await startServer({ databaseUrl, env });
  const workspace = await new Client(second).createWorkspace();
  await workspace.uploadJobFunctions(scripts);
  for (const name of ['steps', 'starts', 'started']) await workspace.putWorkflow(name, name);
  const database = await connect(databaseUrl);
  const throughFirst = new Workspace(new Client(first), workspace.name);
  return { first, second, workspace, throughFirst, database };
}

const startMany = (workspace: Workspace, count: number, workflow: string, args: unknown) =>
  Promise.all(Array.from({ length: count }, () => workspace.start(workflow, args)));

const finishAll = (workspace: Workspace, ids: string[]) => Promise.all(ids.map((id) => workspace.finished(id)));

/** Until a query answers that many rows. */
async function untilRows(database: pg.Client, query: string, count: number): Promise<void> {
  while ((await database.query(query)).rows.length < count) await sleep(20);
}

test(
  'E6, D1: kill -9 of a server in the middle of 200 executions: another one continues all of them',
  async () => {
    const { first, workspace, throughFirst, database } = await startPair(shortLease);
    const ids = await startMany(throughFirst, 200, 'steps', { steps: 3, ms: 30 });
    await untilRows(database, `select 1 from jobcell.executions where status = 'SUCCESS'`, 40);
    await first.kill();
    const committed = async () =>
      (
        await database.query(
          `select execution_id || path as step, runs, finished_at, result from jobcell.journal
         where status = 'SUCCESS' and name = 'step'`,
        )
      ).rows;
    const before = await committed();
    const ended = await finishAll(workspace, ids);
    expect(ended.filter(({ status, result }) => status !== 'SUCCESS' || result !== 3)).toEqual([]);
    // E2: what was committed stands as it was, and did not run again.
    const after = new Map((await committed()).map((row) => [row.step, row]));
    expect(after.size).toBe(600);
    expect(before.map(({ step }) => after.get(step))).toEqual(before);
  },
  limitMs,
);

test(
  'D4, D2: a server that stood still beyond its lease writes nothing, does nothing, and its cells are dead by then',
  async () => {
    const { first, second, workspace, throughFirst, database } = await startPair(shortLease);
    let requests = 0;
    const web = await startWebServer((_, response) => {
      requests++;
      response.end();
    });
    const ids = await startMany(throughFirst, 16, 'steps', { steps: 20, ms: 250, url: web.url });
    await untilRows(database, `select 1 from jobcell.journal where status = 'SUCCESS' and name = 'step'`, 16);
    const [{ id: holder }] = (await database.query('select id from jobcell.servers order by started_at limit 1')).rows;
    const cells = cellsOf(first.pid);
    expect(cells.length).toBeGreaterThan(0);
    process.kill(first.pid, 'SIGSTOP');
    try {
      const held = `select 1 from jobcell.executions where holder = '${holder}'`;
      await untilRows(database, held, 1);
      while ((await database.query(held)).rows.length > 0) await sleep(10);
      // Nobody else could go on with them before this moment.
      expect(runningOf(cells)).toEqual([]);
      const ended = await finishAll(workspace, ids);
      expect(ended.filter(({ status, result }) => status !== 'SUCCESS' || result !== 190)).toEqual([]);
    } finally {
      // The second server would act on its own while the first one is looked at.
      await second.stop();
    }
    const everything = async () => [
      (await database.query('select * from jobcell.executions order by id')).rows,
      (await database.query('select * from jobcell.journal order by id')).rows,
      (await database.query('select * from jobcell.logs order by execution_id, id')).rows,
      requests,
    ];
    const before = await everything();
    process.kill(first.pid, 'SIGCONT');
    // It has noticed, and holds a new lease.
    await untilRows(database, `select 1 from jobcell.servers where id <> '${holder}' and expires_at > now()`, 1);
    await sleep(1_000);
    expect(await everything()).toEqual(before);
    expect(first.logs()).toContain('lost the lease');
    // And it is as good as new.
    expect(await throughFirst.run('steps', { steps: 2, ms: 1 })).toMatchObject({ status: 'SUCCESS', result: 1 });
  },
  limitMs,
);

test(
  'D30: on SIGTERM a server hands its executions over at once, and exits with 0',
  async () => {
    const { first, workspace, throughFirst, database } = await startPair(endlessLease);
    const ids = await startMany(throughFirst, 16, 'steps', { steps: 3, ms: 500 });
    await untilRows(database, `select 1 from jobcell.journal where status = 'SUCCESS' and name = 'step'`, 8);
    expect(await first.stop()).toBe(0);
    expect((await database.query('select 1 from jobcell.servers')).rows).toHaveLength(1);
    const ended = await finishAll(workspace, ids);
    expect(ended.filter(({ status, result }) => status !== 'SUCCESS' || result !== 3)).toEqual([]);
    const runs = ended.flatMap(({ jobExecutions }) => jobExecutions.map((step) => step.runs));
    expect(Math.max(...runs)).toBe(2);
  },
  limitMs,
);

test(
  'D5, D6: calls that start executions start each one once, whenever their server or their cell is killed',
  async () => {
    const { first, workspace, throughFirst, database } = await startPair(shortLease);
    const count = 15;
    const tries = 3;
    const ids: string[] = [];
    for (let attempt = 0; attempt < tries; attempt++) {
      const before = `select 1 from jobcell.journal where kind = 'startWorkflow'`;
      const already = (await database.query(before)).rows.length;
      ids.push(...(await startMany(throughFirst, 30, 'starts', { count })));
      // Somewhere in the middle of their calls.
      await untilRows(database, before, already + 60);
      for (const cell of cellsOf(first.pid).slice(0, 4)) process.kill(cell, 'SIGKILL');
      await sleep(Math.random() * 200);
      await first.kill();
      if (attempt < tries - 1) await first.restart();
    }
    for (const execution of await finishAll(workspace, ids)) {
      expect(execution).toMatchObject({ status: 'SUCCESS' });
      const { rows } = await database.query(
        `select id, (args::json ->> 'n')::int as n from jobcell.executions where parent_execution_id = $1 order by n`,
        [execution.id],
      );
      expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: count }, (_, n) => n));
      expect(rows.map(({ id }) => id)).toEqual(execution.result);
    }
  },
  limitMs,
);

describe('D24: what brings its servers or its cells down again and again is given up', () => {
  test(
    'after 10 takeovers in a row without a new record',
    async () => {
      const server = await startServer({ env: shortLease });
      const workspace = await new Client(server).createWorkspace();
      await workspace.uploadJobFunctions({
        quick: `export const main = () => 'quick';`,
        endless: `export const main = () => new Promise(() => setTimeout(() => {}, 3_600_000));`,
        looping: `export const main = () =>
          [tailor.workflow.execJobFunction('quick'), tailor.workflow.execJobFunction('endless')];`,
      });
      await workspace.putWorkflow('looping', 'looping');
      const database = await connect(server.databaseUrl);
      const id = await workspace.start('looping');
      for (let takeovers = 0; takeovers < 10; takeovers++) {
        await workspace.until(id, ({ status, stack }) => status === 'FAILED' || stack.at(-1) === 'endless');
        // Its server dies: what holds it now is a lease that has run out.
        const { rows } = await database.query<{ fence: number }>(
          `with s as (
             insert into jobcell.servers (id, expires_at) values (gen_random_uuid(), now() - interval '1 second')
             returning id)
           update jobcell.executions e set holder = s.id from s where e.id = $1 and status = 'RUNNING' returning fence`,
          [id],
        );
        if (rows.length === 0) break;
        await untilRows(
          database,
          `select 1 from jobcell.executions where id = '${id}' and fence > ${rows[0]!.fence}`,
          1,
        );
      }
      const given = await workspace.finished(id);
      expect(given).toMatchObject({ status: 'FAILED', error: { code: 'CRASH_LOOP', kind: 'PLATFORM', at: 'looping' } });
      expect(given.error!.message).toContain('10 servers in a row');
      // A person who has mended it resumes it; what was finished is kept.
      await workspace.uploadJobFunction('endless', `export const main = () => 'mended';`);
      const resumed = await workspace.resume(id);
      expect(resumed).toMatchObject({ status: 'SUCCESS', result: ['quick', 'mended'] });
      expect(resumed.jobExecutions.find(({ name }) => name === 'quick')!.runs).toBe(1);
    },
    limitMs,
  );

  test(
    'after 50 deaths of cells in one attempt, though no step has lost its own four times',
    async () => {
      const killsPerStep = 3;
      const begun = new Map<string, number>();
      const web = await startWebServer((request, response) => {
        const times = (begun.get(request.url!) ?? 0) + 1;
        begun.set(request.url!, times);
        if (times > killsPerStep) return response.end();
        for (const cell of cellsOf(server.pid)) process.kill(cell, 'SIGKILL');
        return undefined;
      });
      // One cell: the one that is killed is the one that runs the step.
      const server = await startServer({ env: { ...endlessLease, JOBCELL_CELLS: '1' } });
      const workspace = await new Client(server).createWorkspace();
      await workspace.uploadJobFunctions({
        'deadly-step': `export const main = async ({ n }) => { await fetch('${web.url}/' + n); };`,
        deadly: `export function main() {
          for (let n = 0; n < 20; n++) tailor.workflow.execJobFunction('deadly-step', { n });
        }`,
      });
      await workspace.putWorkflow('deadly', 'deadly');
      const execution = await workspace.run('deadly');
      expect(execution).toMatchObject({ status: 'FAILED', error: { code: 'CRASH_LOOP', at: 'deadly' } });
      const runs = [...begun.values()];
      expect(Math.max(...runs)).toBe(killsPerStep + 1);
      expect(runs.reduce((sum, times) => sum + Math.min(times, killsPerStep), 0)).toBe(50);
    },
    limitMs,
  );
});
