import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { replayModes } from '../support/fixtures.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let workspace: Workspace;
let database: pg.Client;

beforeAll(async () => {
  server = await startServer();
  workspace = await new Client(server).createWorkspace();
  database = new pg.Client(server.databaseUrl);
  await database.connect();
  await workspace.uploadJobFunctions({ step: 'export const main = (args) => ({ got: args });' });
});
afterAll(() => database.end());

const logsOf = async (id: string) =>
  (
    await workspace.client.expect<{ items: { message: string; path: string; run: number }[] }>(
      'GET',
      `${workspace.path}/executions/${id}/logs`,
    )
  ).items;

describe.each(replayModes)('rules, replay %s', (replay) => {
  test("E1: a step's result is committed before the script that asked for it sees it", async () => {
    await workspace.uploadJobFunctions({
      'holds-main': `export function main() {
      const r = tailor.workflow.execJobFunction('holds-step');
      console.log('saw ' + r.v);
      return r;
    }`,
      'holds-step': `export async function main() { await new Promise((r) => setTimeout(r, 500)); return { v: 7 }; }`,
    });
    await workspace.putWorkflow('holds', 'holds-main');
    const id = await workspace.start('holds', {}, { replay });
    await workspace.until(id, (execution) => execution.stack.length === 2);
    // While nobody can write to the journal, the step's end cannot commit, and its caller must not go on.
    await database.query('begin');
    await database.query('lock table jobcell.journal in exclusive mode');
    await sleep(1_500);
    expect(await logsOf(id)).toEqual([]);
    expect((await workspace.getExecution(id)).status).toBe('RUNNING');
    await database.query('commit');
    expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: { v: 7 } });
    expect((await logsOf(id)).map((line) => line.message)).toEqual(['saw 7']);
  });

  test('E3, D2: a holder that lost its claim writes nothing', async () => {
    await workspace.uploadJobFunctions({
      'loses-main': `export function main() { return tailor.workflow.execJobFunction('loses-step'); }`,
      'loses-step': `export async function main() { await new Promise((r) => setTimeout(r, 800)); return 'old'; }`,
    });
    await workspace.putWorkflow('loses', 'loses-main');
    const id = await workspace.start('loses', {}, { replay });
    await workspace.until(id, (execution) => execution.stack.length === 2);
    // What a takeover does, by a holder that does nothing with it.
    await database.query(
      `with s as (insert into jobcell.servers (id, expires_at) values (gen_random_uuid(), now() + interval '1 hour') returning id)
       update jobcell.executions e set fence = fence + 1, holder = s.id from s where e.id = $1`,
      [id],
    );
    await sleep(2_000);
    const { rows } = await database.query(
      'select path, status, result from jobcell.journal where execution_id = $1 order by path',
      [id],
    );
    expect(rows).toEqual([
      { path: 'loses-main', status: 'RUNNING', result: null },
      { path: 'loses-main/0:loses-step', status: 'RUNNING', result: null },
    ]);
    expect(server.logs()).toContain('stopped a run whose claim is gone');
  });

  test('E6, D1: a killed server loses nothing: the restarted one continues, finished steps are not run again', async () => {
    await workspace.uploadJobFunctions({
      'survives-main': `export function main() {
      const a = tailor.workflow.execJobFunction('step', { n: 1 });
      const b = tailor.workflow.execJobFunction('survives-slow');
      return [a, b];
    }`,
      'survives-slow': `export async function main() { await new Promise((r) => setTimeout(r, 1_000)); return 'slow'; }`,
    });
    await workspace.putWorkflow('survives', 'survives-main');
    const ids = await Promise.all([1, 2, 3].map(() => workspace.start('survives', {}, { replay })));
    for (const id of ids) await workspace.until(id, (execution) => execution.stack.at(-1) === 'survives-slow');
    await server.kill();
    await server.restart();
    for (const id of ids) {
      const execution = await workspace.finished(id);
      expect(execution).toMatchObject({ status: 'SUCCESS', result: [{ got: { n: 1 } }, 'slow'] });
      expect(Object.fromEntries(execution.jobExecutions.map((step) => [step.name, step.runs]))).toEqual({
        // By a replay after each of the two steps, too.
        'survives-main': replay === 'always' ? 4 : 2,
        step: 1,
        'survives-slow': 2,
      });
    }
  });

  test('E7, D28: a run keeps the versions of the revision it started at', async () => {
    await workspace.uploadJobFunctions({
      'pinned-main': `export function main() {
      tailor.workflow.execJobFunction('pinned-slow');
      return tailor.workflow.execJobFunction('pinned-step');
    }`,
      'pinned-slow': `export async function main() { await new Promise((r) => setTimeout(r, 1_000)); }`,
      'pinned-step': `export const main = () => 'old';`,
    });
    await workspace.putWorkflow('pinned', 'pinned-main');
    const before = await workspace.start('pinned', {}, { replay });
    await workspace.until(before, (execution) => execution.status === 'RUNNING');
    await workspace.uploadJobFunction('pinned-step', `export const main = () => 'new';`);
    const after = await workspace.start('pinned', {}, { replay });
    expect((await workspace.finished(before)).result).toBe('old');
    expect((await workspace.finished(after)).result).toBe('new');
  });
});

test('D28: a workflow may name the versions its executions use', async () => {
  await workspace.uploadJobFunctions({
    'named-main': `export const main = () => tailor.workflow.execJobFunction('named-step');`,
    'named-step': `export const main = () => 1;`,
  });
  await workspace.uploadJobFunction('named-step', `export const main = () => 2;`);
  await workspace.putWorkflow('named', { mainJobFunction: 'named-main', jobFunctions: { 'named-step': 1 } });
  const execution = await workspace.run('named');
  expect(execution).toMatchObject({ status: 'SUCCESS', result: 1 });
  expect(execution.jobExecutions[1]).toMatchObject({ name: 'named-step', functionVersion: 1 });
});

test('D14: a line carries path and run, and what is before the last recorded call is not repeated', async () => {
  await workspace.uploadJobFunctions({
    'logs-main': `export function main() {
      for (const n of [1, 2, 3]) { console.log('before ' + n); tailor.workflow.execJobFunction('step', { n }); }
      console.warn('after %d', 3);
    }`,
  });
  await workspace.putWorkflow('logs', 'logs-main');
  const { id, jobExecutions } = await workspace.run('logs', {}, { replay: 'always' });
  expect((await logsOf(id)).map(({ message, path, run }) => [message, path, run])).toEqual([
    ['before 1', 'logs-main', 1],
    ['before 2', 'logs-main', 2],
    ['before 3', 'logs-main', 3],
    ['after 3', 'logs-main', 4],
  ]);
  expect(jobExecutions[0]!.runs).toBe(4);
});

test('D12: 256 readings of the clock are kept before a call; a mismatch says so when there were more', async () => {
  const main = (readings: number) => `export function main() {
    const read = [];
    for (let n = 0; n < ${readings}; n++) read.push(Date.now());
    // So that no two runs read the same time by chance.
    const until = performance.now() + 20;
    while (performance.now() < until);
    tailor.workflow.execJobFunction('step', { at: read.at(-1) });
    tailor.workflow.execJobFunction('step', { at: Date.now() });
  }`;
  await workspace.uploadJobFunctions({ 'reads-256': main(256), 'reads-257': main(257) });
  await workspace.putWorkflow('reads-256', 'reads-256');
  await workspace.putWorkflow('reads-257', 'reads-257');
  expect(await workspace.run('reads-256', {}, { replay: 'always' })).toMatchObject({ status: 'SUCCESS' });
  const { error } = await workspace.run('reads-257', {}, { replay: 'always' });
  expect(error).toMatchObject({ code: 'ARGUMENT_MISMATCH' });
  expect(error!.message).toContain('Before its call at position 0 the body read the clock 256 times or more');
});

test('D13: chance is the same on a replay, and fresh in a body that is run again', async () => {
  await workspace.uploadJobFunctions({
    'draws-main': `export function main() {
      const id = crypto.randomUUID();
      tailor.workflow.execJobFunction('step', { id });
      tailor.workflow.execJobFunction('draws-fails', { id, n: Math.random() });
    }`,
    'draws-fails': `export const main = () => { throw new Error(crypto.randomUUID()); };`,
  });
  await workspace.putWorkflow('draws', 'draws-main');
  const failed = await workspace.run('draws', {}, { replay: 'always' });
  // Had main drawn anything else this time, its calls would not match.
  const again = await workspace.resume(failed.id, { code: 'pinned' });
  expect(again).toMatchObject({ status: 'FAILED', error: { code: 'SCRIPT_ERROR', at: 'draws-main/draws-fails' } });
  expect(again.jobExecutions.map(({ args }) => args)).toEqual(failed.jobExecutions.map(({ args }) => args));
  expect(again.error!.message).not.toBe(failed.error!.message);
});

test('an idempotency key answers the first execution again, and refuses another request', async () => {
  await workspace.putWorkflow('once', 'step');
  const invoker = { id: 'u-1', type: 'user', attributes: ['a'], attributeMap: { x: 1, y: 2 } };
  const start = (body: Record<string, unknown>) =>
    workspace.client.post<{ executionId: string; detail?: string }>(`${workspace.path}/workflows/once/start`, body, {
      headers: { 'idempotency-key': 'k-1' },
    });
  const first = await start({ args: { a: 1, b: 2 }, invoker, replay: 'always' });
  // Equal as JSON values is equal, whatever the order of the keys; and `replay` may be left out.
  const again = await start({
    args: { b: 2, a: 1 },
    invoker: { attributeMap: { y: 2, x: 1 }, attributes: ['a'], type: 'user', id: 'u-1' },
  });
  expect(again).toMatchObject({ status: 202, body: { executionId: first.body.executionId } });
  for (const [field, other] of [
    ['args', { args: { a: 2 }, invoker }],
    ['invoker', { args: { a: 1, b: 2 }, invoker: { ...invoker, id: 'u-2' } }],
    ['invoker', { args: { a: 1, b: 2 } }],
    ['replay', { args: { a: 1, b: 2 }, invoker, replay: 'auto' }],
  ] as const) {
    const answer = await start(other);
    expect(answer).toMatchObject({ status: 409, body: { code: 'IDEMPOTENCY_MISMATCH', errors: [{ path: field }] } });
    expect(answer.body.detail).toContain(`other values of \`${field}\``);
  }
});
