import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Problem, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let client: Client;
let workspace: Workspace;

interface Summary {
  id: string;
  function: string | null;
  version: number | null;
  type: string;
  status: string;
  error: { code: string } | null;
  usage: { memoryLimitBytes: number } | null;
  queueMs: number | null;
  runMs: number | null;
  step: { executionId: string; path: string } | null;
  createdAt: string;
  startedAt: string;
  finishedAt: string | null;
  args?: unknown;
  result?: unknown;
}

interface Page<Item> {
  items: Item[];
  nextCursor: string | null;
}

beforeAll(async () => {
  server = await startServer();
  client = new Client(server);
  workspace = await client.createWorkspace();
  await put('echo', `export const main = (args) => { console.log('got', args); return args; };`);
  await put('fails', `export const main = () => { throw new Error('on purpose'); };`);
  await put(
    'slow',
    `export const main = async ({ ms }) => { console.log('begins'); await new Promise((r) => setTimeout(r, ms)); return 'slow'; };`,
  );
});

const put = (name: string, script: string) =>
  client.expect('PUT', `${workspace.path}/functions/${name}`, { body: script });
const invoke = async (name: string, args: unknown = {}) =>
  (await client.post<{ executionId: string }>(`${workspace.path}/functions/${name}/invoke`, { args })).body.executionId;
const path = () => `${workspace.path}/function-executions`;
const get = (id: string) => client.expect<Summary>('GET', `${path()}/${id}`);
const list = (query = '') => client.expect<Page<Summary>>('GET', path() + query);

/** Waits for the one execution that the filter finds; the test's own time limit ends it. */
async function untilOne(query: string): Promise<Summary> {
  for (;;) {
    const { items } = await list(query);
    if (items.length > 0) return items[0]!;
    await sleep(50);
  }
}

test('an invocation can be read as soon as it is answered, in full', async () => {
  const id = await invoke('echo', { n: 1 });
  const execution = await get(id);
  expect(execution).toEqual({
    id,
    function: 'echo',
    version: 1,
    type: 'STANDARD',
    status: 'SUCCESS',
    args: { n: 1 },
    result: { n: 1 },
    error: null,
    usage: {
      peakMemoryBytes: expect.any(Number),
      memoryLimitBytes: 33554432,
      cpuMs: expect.any(Number),
      wallMs: expect.any(Number),
    },
    queueMs: expect.any(Number),
    runMs: expect.any(Number),
    step: null,
    createdAt: expect.any(String),
    startedAt: expect.any(String),
    finishedAt: expect.any(String),
  });
  const times = [execution.createdAt, execution.startedAt, execution.finishedAt!];
  expect(times.toSorted()).toEqual(times);
  const logs = await client.expect<Page<object>>('GET', `${path()}/${id}/logs`);
  expect(logs).toEqual({
    items: [{ at: expect.any(String), level: 'info', message: expect.stringContaining('got'), attributes: null }],
    nextCursor: null,
  });
});

test('the list is newest first, by function and status, without values, in pages', async () => {
  const fresh = await client.createWorkspace();
  for (const [name, script] of [
    ['good', '() => 1'],
    ['bad', '() => { throw 1; }'],
  ]) {
    await client.expect('PUT', `${fresh.path}/functions/${name}`, { body: `export const main = ${script};` });
  }
  const ids: string[] = [];
  for (const name of ['good', 'bad', 'good', 'bad', 'good']) {
    ids.unshift(
      (await client.post<{ executionId: string }>(`${fresh.path}/functions/${name}/invoke`)).body.executionId,
    );
  }
  const read = (query: string) => client.expect<Page<Summary>>('GET', `${fresh.path}/function-executions${query}`);
  const all = await read('');
  expect(all.items.map(({ id }) => id)).toEqual(ids);
  expect(Object.keys(all.items[0]!)).not.toContain('args');
  expect((await read('?function=bad')).items.map(({ id }) => id)).toEqual([ids[1], ids[3]]);
  expect((await read('?status=FAILED')).items.map(({ id }) => id)).toEqual([ids[1], ids[3]]);
  expect((await read('?status=SUCCESS&function=bad')).items).toEqual([]);
  const first = await read('?limit=3');
  const second = await read(`?limit=3&cursor=${first.nextCursor}`);
  expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(ids);
  expect(second.nextCursor).toBe(null);
  // One workspace sees nothing of another.
  expect((await list('?function=good')).items).toEqual([]);
});

test('values above 16 KB are stored as their size, log lines page', async () => {
  const large = 'x'.repeat(20_000);
  expect(await get(await invoke('echo', large))).toMatchObject({
    args: { truncated: true, size: 20_002 },
    result: { truncated: true, size: 20_002 },
  });
  await put('chatty', `export const main = () => { for (let i = 0; i < 120; i++) console.log('\\u0000 line', i); };`);
  const id = await invoke('chatty');
  const lines: string[] = [];
  let cursor = '';
  for (let page = 0; page < 3; page++) {
    const { items, nextCursor } = await client.expect<Page<{ message: string }>>(
      'GET',
      `${path()}/${id}/logs?limit=50${cursor}`,
    );
    lines.push(...items.map(({ message }) => message));
    cursor = `&cursor=${nextCursor}`;
  }
  expect(lines).toHaveLength(120);
  expect(lines.at(-1)).toMatch(/line 119$/);
});

test('many at once are all recorded', async () => {
  const ids = await Promise.all(Array.from({ length: 60 }, (_, n) => invoke(n % 3 ? 'echo' : 'fails', { n })));
  const found = await Promise.all(ids.map(get));
  expect(found.map(({ status, args }) => [status, args])).toEqual(
    ids.map((_, n) => [n % 3 ? 'SUCCESS' : 'FAILED', { n }]),
  );
});

test('one that takes longer than a second is seen while it runs', async () => {
  const answer = invoke('slow', { ms: 2_500 });
  const running = await untilOne('?function=slow&status=RUNNING');
  expect(running).toMatchObject({ runMs: null, finishedAt: null, usage: null, version: 1 });
  const id = await answer;
  expect(id).toBe(running.id);
  expect(await get(id)).toMatchObject({ status: 'SUCCESS', result: 'slow', args: { ms: 2_500 } });
  expect((await list('?function=slow&status=RUNNING')).items).toEqual([]);
});

test('a client that goes away cancels the run', async () => {
  await put('waits', `export const main = () => new Promise((r) => setTimeout(r, 50_000));`);
  const sent = request(new URL(`${workspace.path}/functions/waits/invoke`, server.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${server.adminToken}` },
  });
  sent.on('error', () => {});
  sent.end();
  const { id } = await untilOne('?function=waits&status=RUNNING');
  sent.destroy();
  expect((await untilOne('?function=waits&status=CANCELED')).id).toBe(id);
  expect(await get(id)).toMatchObject({ status: 'CANCELED', result: null, error: null });
});

test('a job execution of a workflow is one, too: by its id', async () => {
  await workspace.uploadJobFunctions({
    inner: `export const main = (args) => { console.log('inner line'); return args; };`,
    outer: `export const main = () => { console.log('outer line'); return tailor.workflow.execJobFunction('inner', { a: 1 }); };`,
  });
  await workspace.putWorkflow('outer-flow', 'outer');
  const { id: executionId, jobExecutions } = await workspace.run('outer-flow');
  const inner = jobExecutions.find(({ name }) => name === 'inner')!;
  expect(await get(inner.id)).toMatchObject({
    id: inner.id,
    function: 'inner',
    version: 1,
    type: 'JOB',
    status: 'SUCCESS',
    args: { a: 1 },
    result: { a: 1 },
    queueMs: null,
    step: { executionId, path: 'outer/0:inner' },
    usage: inner.usage,
  });
  const logs = await client.expect<Page<{ message: string }>>('GET', `${path()}/${inner.id}/logs`);
  expect(logs.items.map(({ message }) => message)).toEqual(['inner line']);
});

describe('what is not there, or not valid', () => {
  test.each(['01a22e52-adcf-781c-b865-7b0b3a086491', 'nonsense'])('%s', async (id) => {
    for (const rest of ['', '/logs']) {
      expect((await client.get<Problem>(`${path()}/${id}${rest}`)).body).toMatchObject({
        status: 404,
        code: 'NOT_FOUND',
      });
    }
  });

  test.each(['?status=DONE', '?limit=0', '?cursor=x', '?function=a/b', '?type=JOB'])('%s', async (query) => {
    expect((await client.get<Problem>(path() + query)).body).toMatchObject({ status: 400, code: 'BAD_REQUEST' });
  });
});

test('a row of a server that is gone does not stay RUNNING', async () => {
  const other = await startServer({ databaseUrl: server.databaseUrl, env: { JOBCELL_LEASE_S: '5' } });
  const elsewhere = new Client(other);
  const lost = elsewhere
    .post(`${workspace.path}/functions/slow/invoke`, { args: { ms: 40_000 } })
    .catch(() => 'cut off');
  const { id } = await untilOne('?function=slow&status=RUNNING');
  await other.kill();
  expect(await lost).toBe('cut off');
  // Its lease ends, by the database's clock.
  const db = new pg.Client({ connectionString: server.databaseUrl, options: '-c search_path=jobcell' });
  await db.connect();
  await db.query('delete from servers where id = (select holder from function_executions where id = $1)', [id]);
  await db.end();
  // Each start looks for them.
  await server.restart();
  await expect
    .poll(() => get(id), { timeout: 30_000 })
    .toMatchObject({ status: 'FAILED', error: { code: 'UNAVAILABLE', kind: 'PLATFORM', at: 'slow' } });
});
