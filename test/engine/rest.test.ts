import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { startServer } from '../support/server.ts';
import { startWebServer } from '../support/web-server.ts';

/** Cells that workflows get: few, so that one held in vain would be missed. As many again are kept for functions. */
const cells = 2;
let workspace: Workspace;
let database: pg.Client;
/** Answers of requests that are held back; null: none is, from now on. */
let held: (() => void)[] | null = [];

beforeAll(async () => {
  const web = await startWebServer((_, response) => {
    if (held) held.push(() => response.end('go'));
    else response.end('go');
  });
  const server = await startServer({
    env: { JOBCELL_CELLS: String(2 * cells), JOBCELL_FETCH_ALLOW: '127.0.0.1', JOBCELL_LEASE_S: '600' },
  });
  workspace = await new Client(server).createWorkspace();
  database = new pg.Client(server.databaseUrl);
  await database.connect();
  await workspace.uploadJobFunctions({
    waits: `export const main = () => tailor.workflow.execJobFunction('waits-inside');`,
    'waits-inside': `export const main = () => tailor.workflow.wait('the-key');`,
    fails: `export const main = () => { throw new Error('not yet'); };`,
    holds: `export const main = async () => (await fetch('${web.url}')).text();`,
  });
  for (const name of ['waits', 'holds']) await workspace.putWorkflow(name, name);
  await workspace.putWorkflow('retries', {
    mainJobFunction: 'fails',
    retryPolicy: { maxRetries: 1, initialBackoff: '60m', maxBackoff: '60m', backoffMultiplier: 1 },
  });
});
afterAll(() => database.end());

const holders = async (ids: string[]) =>
  (await database.query('select holder from jobcell.executions where id = any($1::uuid[])', [ids])).rows.map(
    (row) => row.holder,
  );

test('E5: waiting, retrying and pending executions hold no cell and no server', async () => {
  const start = (workflow: string, count: number) =>
    Promise.all(Array.from({ length: count }, () => workspace.start(workflow)));
  const waiting = await start('waits', 2 * cells);
  const retrying = await start('retries', 2 * cells);
  for (const id of waiting) await workspace.until(id, ({ status }) => status === 'WAITING');
  for (const id of retrying) await workspace.until(id, ({ status }) => status === 'PENDING_RETRY');
  expect(await holders([...waiting, ...retrying])).toEqual(Array(4 * cells).fill(null));
  // All cells run something else at the same time.
  const holding = await start('holds', cells);
  while (held!.length < cells) await sleep(20);
  const pending = await start('holds', 2);
  // Resolved, one waits for a cell like anybody else.
  expect((await workspace.resolve(waiting[0]!, 'the-key', 1)).status).toBe(200);
  await sleep(500);
  expect(await holders([...pending, waiting[0]!])).toEqual([null, null, null]);
  expect(await workspace.getExecution(pending[0]!)).toMatchObject({ status: 'PENDING', stack: [] });
  expect(await workspace.getExecution(waiting[0]!)).toMatchObject({ status: 'PENDING_RESUME', stack: [] });
  expect(held).toHaveLength(cells);
  for (const answer of held!) answer();
  held = null;
  for (const id of [...holding, ...pending]) expect((await workspace.finished(id)).result).toBe('go');
  expect(await workspace.finished(waiting[0]!)).toMatchObject({ status: 'SUCCESS', result: 1 });
});
