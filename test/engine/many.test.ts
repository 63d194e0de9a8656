import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { replayModes } from '../support/fixtures.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { cellsOf } from '../support/server-process.ts';

let server: TestServer;
let workspace: Workspace;

const level = (next: string | null, ms = 5) => `
  export async function main({ n }) {
    await new Promise((resolve) => setTimeout(resolve, ${ms}));
    return ${next ? `tailor.workflow.execJobFunction('${next}', { n }) + 1` : 'n * 1000'};
  }`;

beforeAll(async () => {
  server = await startServer();
  workspace = await new Client(server).createWorkspace();
  await workspace.uploadJobFunctions({ d: level(null), c: level('d'), b: level('c'), a: level('b') });
  await workspace.putWorkflow('nested', 'a');
  const slow = {
    'd-slow': level(null, 1_500),
    'c-slow': level('d-slow'),
    'b-slow': level('c-slow'),
    'a-slow': level('b-slow'),
  };
  await workspace.uploadJobFunctions(slow);
  await workspace.putWorkflow('nested-slow', 'a-slow');
});

const cells = () => cellsOf(server.pid);

test('S1: isolated-vm is loaded in the cells and not in the server', async () => {
  await workspace.run('nested', { n: 1 });
  const loads = (pid: number) => /isolated[-_]vm/.test(readFileSync(`/proc/${pid}/maps`, 'utf8'));
  expect(loads(server.pid)).toBe(false);
  expect(cells().some(loads)).toBe(true);
});

describe.each(replayModes)('many at once, replay %s', (replay) => {
  test('50 executions at once, each of 4 nested levels, give 50 right results', async () => {
    const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => workspace.start('nested', { n }, { replay })));
    const ended = await Promise.all(ids.map((id) => workspace.finished(id)));
    expect(ended.map(({ status, result }) => ({ status, result }))).toEqual(
      ended.map((_, n) => ({ status: 'SUCCESS', result: n * 1000 + 3 })),
    );
  });

  test('kill -9 of any cell in the middle touches only its own run, which runs the step again (D23)', async () => {
    const ids = await Promise.all(
      Array.from({ length: 12 }, (_, n) => workspace.start('nested-slow', { n }, { replay })),
    );
    const reruns = async () => {
      const executions = await Promise.all(ids.map((id) => workspace.getExecution(id)));
      // Only the deepest step is never run again by a replay.
      const deepest = executions.map((execution) => execution.jobExecutions.find((step) => step.name === 'd-slow'));
      return deepest.reduce((sum, step) => sum + (step?.runs ?? 1) - 1, 0);
    };
    let kills = 0;
    while (kills < 4 || (kills < 100 && (await reruns()) === 0)) {
      await sleep(100);
      const all = cells();
      const victim = all[Math.floor(Math.random() * all.length)];
      if (victim === undefined) continue;
      process.kill(victim, 'SIGKILL');
      kills++;
    }
    const ended = await Promise.all(ids.map((id) => workspace.finished(id)));
    expect(ended.map(({ status, result, error }) => ({ status, result, error }))).toEqual(
      ended.map((_, n) => ({ status: 'SUCCESS', result: n * 1000 + 3, error: null })),
    );
    expect(ended.flatMap((execution) => execution.jobExecutions).every((step) => step.status === 'SUCCESS')).toBe(true);
    // Some kill met a run, and none met more than one.
    expect(await reruns()).toBeGreaterThanOrEqual(1);
    expect(await reruns()).toBeLessThanOrEqual(kills);
  });
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
