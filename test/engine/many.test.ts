import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { cellsOf } from '../support/server-process.ts';

let server: TestServer;
let workspace: Workspace;

const level = (next: string | null) => `
  export async function main({ n }) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return ${next ? `tailor.workflow.execJobFunction('${next}', { n }) + 1` : 'n * 1000'};
  }`;

beforeAll(async () => {
  server = await startServer();
  workspace = await new Client(server).createWorkspace();
  await workspace.uploadJobFunctions({ d: level(null), c: level('d'), b: level('c'), a: level('b') });
  await workspace.putWorkflow('nested', 'a');
});

const cells = () => cellsOf(server.pid);

test('50 executions at once, each of 4 nested levels, give 50 right results', async () => {
  const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => workspace.start('nested', { n })));
  const ended = await Promise.all(ids.map((id) => workspace.finished(id)));
  expect(ended.map(({ status, result }) => ({ status, result }))).toEqual(
    ended.map((_, n) => ({ status: 'SUCCESS', result: n * 1000 + 3 })),
  );
});

test('kill -9 of any cell in the middle touches only its own run, which runs the step again (D23)', async () => {
  await workspace.uploadJobFunction(
    'd',
    `export async function main({ n }) { await new Promise((resolve) => setTimeout(resolve, 400)); return n * 1000; }`,
  );
  const ids = await Promise.all(Array.from({ length: 12 }, (_, n) => workspace.start('nested', { n })));
  for (let kills = 0; kills < 4; kills++) {
    await sleep(150);
    const [victim] = cells();
    if (victim !== undefined) process.kill(victim, 'SIGKILL');
  }
  const ended = await Promise.all(ids.map((id) => workspace.finished(id)));
  expect(ended.map(({ status, result, error }) => ({ status, result, error }))).toEqual(
    ended.map((_, n) => ({ status: 'SUCCESS', result: n * 1000 + 3, error: null })),
  );
  // A finished step ran once; who was cut off says so.
  const steps = ended.flatMap((execution) => execution.jobExecutions);
  expect(steps.every((step) => step.status === 'SUCCESS' && step.runs >= 1 && step.runs <= 4)).toBe(true);
});

test('a cell that is killed again and again fails the run with CELL_LOST (D23)', async () => {
  await workspace.uploadJobFunction(
    'sleeper',
    `export async function main() { await new Promise((resolve) => setTimeout(resolve, 30_000)); }`,
  );
  await workspace.putWorkflow('sleeper', 'sleeper');
  const id = await workspace.start('sleeper');
  // Kill whatever cell runs it, as often as it is started.
  let seen = 0;
  for (;;) {
    const { status, jobExecutions } = await workspace.until(
      id,
      (execution) => execution.status === 'FAILED' || (execution.jobExecutions[0]?.runs ?? 0) > seen,
    );
    if (status === 'FAILED') break;
    seen = jobExecutions[0]!.runs;
    for (const cell of cells()) process.kill(cell, 'SIGKILL');
  }
  const execution = await workspace.finished(id);
  expect(execution).toMatchObject({ status: 'FAILED', error: { code: 'CELL_LOST', kind: 'PLATFORM', at: 'sleeper' } });
  expect(execution.jobExecutions[0]!.runs).toBe(4);
});
