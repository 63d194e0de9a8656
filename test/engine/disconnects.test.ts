import { chmodSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { createDatabase } from '../support/database.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../support/database-proxy.ts';
import { startServer, type TestServer } from '../support/server.ts';

/** The database goes away, or what it answers does, for less than a lease (D1, D3). */
describe.each(['a TCP port', 'a Unix socket'])('a database behind %s', (kind) => {
  let proxy: DatabaseProxy;
  let server: TestServer;
  let workspace: Workspace;
  let database: pg.Client;

  beforeAll(async () => {
    const databaseUrl = await createDatabase();
    const folder = kind === 'a Unix socket' ? mkdtempSync(join(inject('runFolder'), 'socket-')) : undefined;
    if (folder !== undefined) chmodSync(folder, 0o755);
    proxy = await startDatabaseProxy(databaseUrl, folder);
    // Longer than any test: nothing here goes on because a lease ended.
    server = await startServer({ databaseUrl: proxy.url, env: { JOBCELL_LEASE_S: '600' } });
    workspace = await new Client(server).createWorkspace();
    await workspace.uploadJobFunctions({
      step: `export async function main({ n, ms }) {
        console.log('inside ' + n);
        await new Promise((resolve) => setTimeout(resolve, ms));
        return n;
      }`,
      main: `export async function main({ steps, ms }) {
        let sum = 0;
        for (let n = 0; n < steps; n++) {
          console.log('before ' + n);
          sum += tailor.workflow.execJobFunction('step', { n, ms });
        }
        return { sum, started: await tailor.workflow.startWorkflow('started') };
      }`,
      started: `export const main = () => 'started';`,
      waiter: `export const main = () => tailor.workflow.wait('approval', { for: 'you' });`,
      resolver: `export async function main({ id }) {
        try {
          await tailor.workflow.resolve(id, 'approval', (payload) => ({ seen: payload }));
          return 'resolved';
        } catch (error) { return error.code; }
      }`,
      refused: `export async function main() {
        try { await tailor.workflow.startWorkflow('nowhere'); } catch (error) { return error.code; }
      }`,
      broken: `export const main = () => { throw new Error('broken'); };`,
      resumer: `export async function main({ id }) {
        try { return await tailor.workflow.resumeWorkflowExecution(id); } catch (error) { return error.message; }
      }`,
    });
    for (const name of ['main', 'started', 'waiter', 'resolver', 'refused', 'broken', 'resumer'])
      await workspace.putWorkflow(name, name);
    database = new pg.Client(databaseUrl);
    await database.connect();
  });
  afterAll(async () => {
    await server.stop();
    await proxy.close();
    await database.end();
  });

  /** All of it happened once, under one claim: nothing was lost, and nothing had to be taken over. */
  async function expectUndisturbed(id: string, steps: number): Promise<void> {
    const execution = await workspace.finished(id);
    expect(execution).toMatchObject({ status: 'SUCCESS', result: { sum: (steps * (steps - 1)) / 2 } });
    expect(execution.jobExecutions.filter(({ runs }) => runs > 1)).toEqual([]);
    const messages = (await workspace.logs(id)).map((line) => line.message);
    expect(messages).toEqual(Array.from({ length: steps }, (_, n) => [`before ${n}`, `inside ${n}`]).flat());
    const { rows } = await database.query('select id from jobcell.executions where parent_execution_id = $1', [id]);
    expect(rows).toEqual([{ id: (execution.result as { started: string }).started }]);
  }

  const fenceOf = async (id: string) =>
    (await database.query('select fence from jobcell.executions where id = $1', [id])).rows[0].fence;

  const unfinished = async (ids: string[]) =>
    (await database.query(`select 1 from jobcell.executions where status <> 'SUCCESS' and id = any($1)`, [ids])).rows
      .length;

  test.each(['away', 'stalled'] as const)('%s for less than a lease: runs pause, and go on', async (mode) => {
    const ids = await Promise.all(Array.from({ length: 8 }, () => workspace.start('main', { steps: 4, ms: 200 })));
    for (const id of ids) await workspace.until(id, ({ stack }) => stack.length > 0);
    await proxy.set(mode);
    await sleep(2_000);
    const { rows } = await database.query(
      `select 1 from jobcell.executions where status = 'RUNNING' and id = any($1)`,
      [ids],
    );
    expect(rows.length).toBeGreaterThan(0);
    await proxy.set('open');
    while ((await unfinished(ids)) > 0) await sleep(50);
    for (const id of ids) {
      await expectUndisturbed(id, 4);
      expect(await fenceOf(id)).toBe('1');
    }
    expect(server.logs()).not.toContain('lost the lease');
  });

  test.each([
    ['step-starts', /SELECT [1-9]/],
    ['step-ends', /UPDATE [1-9]/],
    ['record-started-execution', /SELECT 1/],
    ['logs', /INSERT 0 [1-9]/],
    ['finish-execution', /SELECT 1/],
  ])('D3: a lost answer to %s is asked for again', async (statement, carriedOut) => {
    const lost = proxy.loseAnswer(statement, (answer) => carriedOut.test(answer.toString('latin1')));
    const id = await workspace.start('main', { steps: 3, ms: statement === 'logs' ? 300 : 1 });
    await lost;
    await expectUndisturbed(id, 3);
    expect(await fenceOf(id)).toBe('1');
  });

  test('D3: a refusal whose record was answered by nobody is recorded once', async () => {
    const lost = proxy.loseAnswer('record-finished', (answer) => /INSERT 0 1/.test(answer.toString('latin1')));
    const id = await workspace.start('refused');
    await lost;
    expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: 'WORKFLOW_NOT_FOUND' });
    const { rows } = await database.query(
      `select status from jobcell.journal where execution_id = $1 and kind <> 'job'`,
      [id],
    );
    expect(rows).toEqual([{ status: 'FAILED' }]);
  });

  test('D3: an execution whose wait was answered by nobody waits', async () => {
    const lost = proxy.loseAnswer('commit-wait', (answer) => /INSERT 0 1/.test(answer.toString('latin1')));
    const id = await workspace.start('waiter');
    await lost;
    await workspace.until(id, ({ status }) => status === 'WAITING');
    expect((await workspace.resolve(id, 'approval', 'yes')).status).toBe(200);
    expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: 'yes' });
  });

  test('D3, D8: a resume is undone once, though its undoing was answered by nobody', async () => {
    const main = (n: number) => `export function main() {
      tailor.workflow.execJobFunction('step', { n: ${n}, ms: 1 });
      throw new Error('broken');
    }`;
    await workspace.uploadJobFunction('undone', main(1));
    await workspace.putWorkflow('undone', 'undone');
    const failed = await workspace.run('undone');
    await workspace.uploadJobFunction('undone', main(2));
    await workspace.client.expect('POST', `${workspace.path}/executions/${failed.id}/resume`, { body: {} });
    const lost = proxy.loseAnswer('commit');
    await lost;
    const mismatch = await workspace.finished(failed.id);
    expect(mismatch).toMatchObject({
      status: 'FAILED',
      revision: failed.revision,
      error: { code: 'ARGUMENT_MISMATCH', previousError: failed.error },
    });
    expect(await workspace.resume(failed.id, { code: 'pinned' })).toMatchObject({ error: { message: 'broken' } });
  });

  test('E6: what a claim took whose answer was lost is given back', async () => {
    const lost = proxy.loseAnswer('claim', (answer) => /SELECT [1-9]/.test(answer.toString('latin1')));
    const id = await workspace.start('main', { steps: 3, ms: 1 });
    await lost;
    await expectUndisturbed(id, 3);
  });

  test("D3, D6: a script's resolve whose commit was answered by nobody has resolved", async () => {
    const waiting = await workspace.start('waiter');
    await workspace.until(waiting, ({ status }) => status === 'WAITING');
    const lost = proxy.loseAnswer('commit');
    const resolver = await workspace.start('resolver', { id: waiting });
    await lost;
    expect(await workspace.finished(resolver)).toMatchObject({ status: 'SUCCESS', result: 'resolved' });
    expect(await workspace.finished(waiting)).toMatchObject({ result: { seen: { for: 'you' } } });
  });

  test("D3, D6: a script's resume whose commit was answered by nobody has resumed", async () => {
    const { id } = await workspace.run('broken');
    const lost = proxy.loseAnswer('commit');
    const resumer = await workspace.start('resumer', { id });
    await lost;
    expect(await workspace.finished(resumer)).toMatchObject({ status: 'SUCCESS', result: id });
    expect(await workspace.finished(id)).toMatchObject({ status: 'FAILED', attempt: 2 });
  });
});
