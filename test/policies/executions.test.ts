import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { type Gate, standAt, startGate } from '../support/gate.ts';
import { startServer, type TestServer } from '../support/server.ts';

/** Long enough for one more to come in, if any could. */
const settleMs = 400;

let server: TestServer;
let workspace: Workspace;
let gate: Gate;

beforeAll(async () => {
  server = await startServer({ env: { JOBCELL_CELLS: '80', JOBCELL_FETCH_ALLOW: '127.0.0.1' } });
});
afterEach(() => gate.openForGood());

/** A workspace and a gate of the test's own, with workflows whose main stands at the gate under the workflow's name. */
async function prepare(workflows: Record<string, number | null>): Promise<void> {
  gate = await startGate();
  workspace = await new Client(server).createWorkspace();
  await workspace.uploadJobFunction(
    'stand',
    `export async function main({ url, name }) { ${standAt('url', 'name')}; return name; }`,
  );
  for (const [name, cap] of Object.entries(workflows)) await declare(name, cap);
}

const declare = (name: string, cap: number | null) =>
  workspace.putWorkflow(name, {
    mainJobFunction: 'stand',
    ...(cap === null ? {} : { concurrencyPolicy: { maxConcurrentExecutions: cap } }),
  });

/** Ids in the order of creation. */
const start = async (workflow: string, count: number) => {
  const args = { url: gate.url, name: workflow };
  return (await Promise.all(Array.from({ length: count }, () => workspace.start(workflow, args)))).sort();
};

const countInside = () =>
  Object.fromEntries(
    Map.groupBy(gate.inside(), (name) => name)
      .entries()
      .map(([name, all]) => [name, all.length]),
  );

test('D19: 50 executions run in a workspace and 20 of a workflow, exactly; the rest is PENDING and starts when one ends', async () => {
  await prepare({ 'flow-a': null, 'flow-b': null, 'flow-c': null });
  const a = await start('flow-a', 22);
  const b = await start('flow-b', 22);
  const c = await start('flow-c', 12);
  await gate.until(50);
  await sleep(settleMs);
  expect(countInside()).toEqual({ 'flow-a': 20, 'flow-b': 20, 'flow-c': 10 });

  const pending = async (ids: string[]) => {
    const executions = await Promise.all(ids.map((id) => workspace.getExecution(id)));
    return executions.filter((execution) => execution.status === 'PENDING');
  };
  const [lastA] = await pending(a);
  expect(lastA!.waitingFor).toMatchObject({
    reason: 'WORKFLOW',
    pool: 'workflow:flow-a',
    cap: 20,
    inUse: 20,
    position: 1,
  });
  expect(lastA!.waitingFor!.holders).toHaveLength(20);
  const [lastC, lastestC] = await pending(c);
  expect(lastC!.waitingFor).toMatchObject({
    reason: 'EXECUTIONS',
    need: [
      { pool: 'workflow:flow-c', slots: 1 },
      { pool: 'executions', slots: 1 },
      { pool: 'workspace', slots: 1 },
    ],
    pool: 'executions',
    policy: null,
    cap: 50,
    inUse: 50,
  });
  // Four of the two full workflows are older.
  expect(lastC!.waitingFor!.position).toBe(5);
  expect(lastestC!.waitingFor!.position).toBe(6);
  expect((await workspace.pools()).map(({ pool, cap, inUse, queued }) => [pool, cap, inUse, queued])).toEqual([
    ['executions', 50, 50, 6],
    ['workspace', 100, 50, 0],
    ['workflow:flow-a', 20, 20, 2],
    ['workflow:flow-b', 20, 20, 2],
    ['workflow:flow-c', 20, 10, 0],
  ]);

  // The slot of one of flow-b goes to the oldest that fits.
  expect(gate.open('flow-b', 1)).toBe(1);
  await gate.until(49);
  await gate.until(50);
  expect(countInside()).toEqual({ 'flow-a': 20, 'flow-b': 20, 'flow-c': 10 });
  expect(gate.open('flow-a', 1)).toBe(1);
  await gate.until(49);
  await gate.until(50);
  expect(gate.most()).toBe(50);
  gate.openForGood();
  for (const id of [...a, ...b, ...c]) expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS' });
  expect(gate.most()).toBe(50);
});

test("a workflow's own cap counts; a lower one ends nothing, a higher one lets waiters go at once", async () => {
  await prepare({ capped: 3, other: null });
  const ids = await start('capped', 7);
  await gate.until(3);
  await sleep(settleMs);
  expect(countInside()).toEqual({ capped: 3 });
  const [first] = await start('other', 1);
  await gate.until(4);
  gate.open('other');
  await workspace.finished(first!);

  await declare('capped', 5);
  await gate.until(5);
  await declare('capped', 1);
  await sleep(settleMs);
  expect(gate.inside()).toHaveLength(5);
  gate.open(undefined, 4);
  await sleep(settleMs);
  expect(gate.inside()).toHaveLength(1);
  const waiting = await workspace.getExecution(ids.at(-1)!);
  expect(waiting).toMatchObject({
    status: 'PENDING',
    waitingFor: { reason: 'WORKFLOW', pool: 'workflow:capped', cap: 1, inUse: 1, position: 2 },
  });
  await declare('capped', 100);
  await gate.until(3);
  gate.openForGood();
  for (const id of ids) expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS' });
});

test('a canceled execution that waits leaves its place, and one that runs frees its slot', async () => {
  await prepare({ single: 1 });
  const [runs, waits, last] = await start('single', 3);
  await gate.until(1);
  expect((await workspace.cancel(waits!)).status).toBe(202);
  expect((await workspace.getExecution(last!)).waitingFor).toMatchObject({ position: 1, holders: [runs] });
  expect((await workspace.cancel(runs!)).status).toBe(202);
  await workspace.until(last!, ({ status }) => status === 'RUNNING');
  gate.openForGood();
  expect(await workspace.finished(last!)).toMatchObject({ status: 'SUCCESS' });
});

test('one full workflow with thousands of PENDING executions blocks no other', async () => {
  await prepare({ crowd: 1, free: null });
  const ids: string[] = [];
  for (let group = 0; group < 20; group++) ids.push(...(await start('crowd', 50)));
  await gate.until(1);
  const [one] = await start('free', 1);
  await gate.until(2);
  gate.open('free');
  expect(await workspace.finished(one!)).toMatchObject({ status: 'SUCCESS' });
  await Promise.all(ids.map((id) => workspace.cancel(id)));
});
