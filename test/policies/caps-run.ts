import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Member } from '../faults/cluster.ts';
import { Client, Workspace } from '../support/client.ts';
import { poolMismatches } from '../support/pools.ts';
import { type CapChange, checkCaps, type Note } from './caps-check.ts';
import { bodies, nodeScript, type PolicyName, policyKeys, type Workload } from './caps-workload.ts';

export interface CapsCluster {
  members: Member[];
  adminToken: string;
  databaseUrl: string;
  database: pg.Client;
  counter: { url: string; take(): Note[] };
}

/** All executions have to end within this, ms. */
const limitMs = 150_000;
const now = () => performance.now();

/** Runs one workload on the cluster; answers what was broken, in sentences. */
export async function runWorkload(cluster: CapsCluster, workload: Workload): Promise<string[]> {
  const { members } = cluster;
  cluster.counter.take();
  const violations: string[] = [];
  const changes: CapChange[] = [];
  const name = (await anyServer(cluster, (client) => client.createWorkspace())).name;
  const here = <T>(ask: (workspace: Workspace) => Promise<T>) =>
    anyServer(cluster, (client) => ask(new Workspace(client, name)));

  async function declare(pool: CapChange['pool'], cap: number | null, put: (workspace: Workspace) => Promise<unknown>) {
    const change = { pool, cap, sent: now(), answered: Number.POSITIVE_INFINITY };
    changes.push(change);
    await here(put);
    change.answered = now();
  }
  const concurrencyPolicy = (cap: number | null) =>
    cap === null ? {} : { concurrencyPolicy: { maxConcurrentExecutions: cap } };
  const declarePolicy = (policy: PolicyName, cap: number | null) =>
    declare(policy, cap, (workspace) =>
      workspace.putPolicy(policy, { ...policyKeys[policy], ...concurrencyPolicy(cap) }),
    );

  await here((workspace) => workspace.uploadJobFunction('node', nodeScript));
  for (const policy of Object.keys(policyKeys) as PolicyName[]) await declarePolicy(policy, workload.policies[policy]);
  for (const [number, cap] of workload.workflows.entries()) {
    await declare(`workflow-${number}`, cap, (workspace) =>
      workspace.putWorkflow(`workflow-${number}`, { mainJobFunction: 'node', ...concurrencyPolicy(cap) }),
    );
  }

  const started: number[] = [];
  const ids: string[] = [];
  const starting = workload.executions.map(async ({ workflow, startAfter, main }, execution) => {
    await sleep(startAfter);
    started[execution] = now();
    const body = { args: { url: cluster.counter.url, execution, path: 'm', plan: main } };
    const headers = { 'idempotency-key': `execution-${execution}` };
    const answer = await anyServer(cluster, (client) =>
      client.expect<{ executionId: string }>('POST', `/v1/workspaces/${name}/workflows/workflow-${workflow}/start`, {
        body,
        headers,
      }),
    );
    ids[execution] = answer.executionId;
  });
  // One change of a cap at a time: which one counts when is known.
  const changing = (async () => {
    const sorted = workload.changes.toSorted((a, b) => a.after - b.after);
    const begun = now();
    for (const { after, policy, cap } of sorted) {
      await sleep(Math.max(0, begun + after - now()));
      await declarePolicy(policy, cap);
    }
  })();
  const ending = (async () => {
    for (const { after, server, kind } of workload.ends) {
      await sleep(after);
      await end(members[server]!, kind);
    }
  })();
  let over = false;
  const watching = (async () => {
    while (!over) {
      for (const { pool, used, held } of await poolMismatches(cluster.databaseUrl))
        violations.push(`the counter of pool ${pool} was ${used} while ${held} slots were held`);
      await sleep(100);
    }
  })();

  await Promise.all([...starting, changing, ending]);
  const late = await untilFinished(cluster.database, ids);
  over = true;
  await watching;
  violations.push(...late.map(({ id, status }) => `execution ${ids.indexOf(id)} is still ${status}`));
  violations.push(...(await checkResults(cluster.database, workload, ids)));
  violations.push(...checkCaps(workload, cluster.counter.take(), started, changes));
  return violations;
}

/** Asks one server after the other until one answers: some are down for a moment. */
async function anyServer<T>({ members, adminToken }: CapsCluster, ask: (client: Client) => Promise<T>): Promise<T> {
  const deadline = now() + limitMs;
  for (let turn = 0; ; turn++) {
    const { url } = members[turn % members.length]!.process;
    try {
      return await ask(new Client({ url, adminToken }));
    } catch (error) {
      // A server that stops says UNAVAILABLE, one that is gone refuses the connection.
      const passing = error instanceof TypeError || String(error).includes('UNAVAILABLE');
      if (!passing || now() > deadline) throw error;
      await sleep(50);
    }
  }
}

async function end(member: Member, kind: Workload['ends'][number]['kind']): Promise<void> {
  if (kind === 'cell') {
    const [cell] = member.cells().slice(-1);
    if (cell !== undefined) process.kill(cell, 'SIGKILL');
    return;
  }
  await member.end(kind === 'kill' ? 'SIGKILL' : 'SIGTERM');
  await member.restart();
}

async function untilFinished(database: pg.Client, ids: string[]): Promise<{ id: string; status: string }[]> {
  const deadline = now() + limitMs;
  for (;;) {
    const { rows } = await database.query<{ id: string; status: string }>(
      `select id, status from jobcell.executions where id = any($1) and status not in ('SUCCESS', 'FAILED', 'CANCELED')`,
      [ids],
    );
    if (rows.length === 0 || now() > deadline) return rows;
    await sleep(50);
  }
}

async function checkResults(database: pg.Client, workload: Workload, ids: string[]): Promise<string[]> {
  const { rows } = await database.query<{ id: string; status: string; result: string | null; error: string | null }>(
    'select id, status, result, error from jobcell.executions where id = any($1)',
    [ids],
  );
  return rows.flatMap(({ id, status, result, error }) => {
    const execution = ids.indexOf(id);
    const right = String(bodies(workload.executions[execution]!.main));
    return status === 'SUCCESS' && result === right
      ? []
      : [`execution ${execution} is ${status} with ${result ?? error} instead of ${right}`];
  });
}
