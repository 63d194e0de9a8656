import pg from 'pg';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Client, type Execution, type JobExecution, type Problem, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

/** How stored executions are shown. Their rows are written here, so that every form can be had; engine/ has real runs. */
let server: TestServer;
let workspace: Workspace;
let database: pg.Client;
let workspaceId: string;

beforeAll(async () => {
  server = await startServer();
  workspace = await new Client(server).createWorkspace();
  database = new pg.Client({ connectionString: server.databaseUrl, options: '-c search_path=jobcell' });
  await database.connect();
  const { rows } = await database.query('select id from workspaces where name = $1', [workspace.name]);
  workspaceId = rows[0].id;
});
afterAll(() => database.end());

async function insert(table: string, row: Record<string, unknown>): Promise<void> {
  const names = Object.keys(row);
  const places = names.map((_, i) => `$${i + 1}`);
  await database.query(`insert into ${table} (${names}) values (${places})`, Object.values(row));
}

async function storeExecution(row: Record<string, unknown> = {}): Promise<string> {
  const id = uuidv7();
  await insert('executions', {
    workspace_id: workspaceId,
    id,
    workflow: 'stored',
    main_job_function: 'main-job',
    status: 'SUCCESS',
    args: '{}',
    revision: 1,
    seed: '',
    ...row,
  });
  return id;
}

async function storeCall(executionId: string, path: string, row: Record<string, unknown> = {}): Promise<string> {
  const id = uuidv7();
  const [, position, name] = /(?:^|\/)(?:(\d+):)?([^/]+)$/.exec(path)!;
  await insert('journal', {
    workspace_id: workspaceId,
    execution_id: executionId,
    id,
    path,
    parent_path: path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '',
    position: Number(position ?? 0),
    kind: 'job',
    name,
    args: '{}',
    status: 'SUCCESS',
    started_at: new Date('2026-01-02T03:04:05.006Z'),
    ...row,
  });
  return id;
}

const get = <T = Execution>(id: string, rest = '') =>
  workspace.client.get<T>(`${workspace.path}/executions/${id}${rest}`);

test('an execution with its steps', async () => {
  const parent = uuidv7();
  const failure = {
    name: 'Error',
    message: 'no',
    stack: 'Error: no',
    kind: 'USER_RUNTIME',
    code: 'SCRIPT_ERROR',
    at: 'main-job/fetchData',
  };
  const id = await storeExecution({
    status: 'FAILED',
    args: '{"a":[1,null]}',
    error: JSON.stringify(failure),
    depth: 1,
    parent_execution_id: parent,
    parent_path: 'other/0:stored',
    started_at: new Date('2026-01-02T03:04:05.000Z'),
    finished_at: new Date('2026-01-02T03:04:06.000Z'),
  });
  const main = await storeCall(id, 'main-job', { status: 'FAILED', error: JSON.stringify(failure), runs: 1 });
  const step = await storeCall(id, 'main-job/0:fetchData', {
    args: '{"id":7}',
    result: '[1,2]',
    execution_policy_key: 'tenant.a',
    function_version: 3,
    runs: 2,
    cpu_ms: 1.5,
    wall_ms: 20.25,
    peak_memory_bytes: 1000,
    memory_limit_bytes: 268435456,
    finished_at: new Date('2026-01-02T03:04:05.106Z'),
  });
  await storeCall(id, 'main-job/1:ship', { kind: 'startWorkflow', result: JSON.stringify(parent) });
  const { status, body } = await get(id);
  expect(status).toBe(200);
  expect(body).toEqual({
    id,
    workflow: 'stored',
    status: 'FAILED',
    args: { a: [1, null] },
    result: null,
    error: failure,
    attempt: 1,
    depth: 1,
    parent: { executionId: parent, path: 'other/0:stored' },
    revision: 1,
    retryCount: 0,
    retryAfter: null,
    createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    startedAt: '2026-01-02T03:04:05.000Z',
    finishedAt: '2026-01-02T03:04:06.000Z',
    stack: [],
    jobExecutions: [
      expect.objectContaining({ id: main, path: 'main-job', stackedJobName: 'main-job', error: failure, usage: null }),
      {
        id: step,
        path: 'main-job/0:fetchData',
        stackedJobName: 'main-job/fetchData',
        name: 'fetchData',
        status: 'SUCCESS',
        args: { id: 7 },
        result: [1, 2],
        error: null,
        executionPolicyKey: 'tenant.a',
        functionVersion: 3,
        runs: 2,
        startedAt: '2026-01-02T03:04:05.006Z',
        finishedAt: '2026-01-02T03:04:05.106Z',
        usage: { peakMemoryBytes: 1000, memoryLimitBytes: 268435456, cpuMs: 1.5, wallMs: 20.25 },
      },
    ],
    jobExecutionsCursor: null,
    waitingFor: null,
  });
});

test('the stack is what runs, outermost first, and empty unless the execution runs', async () => {
  const id = await storeExecution({ status: 'RUNNING' });
  for (const [path, status] of [
    ['main-job/1:load/0:part:two', 'RUNNING'],
    ['main-job', 'RUNNING'],
    ['main-job/0:first', 'SUCCESS'],
    ['main-job/1:load', 'RUNNING'],
  ] as const) {
    await storeCall(id, path, { status });
  }
  expect((await get(id)).body.stack).toEqual(['main-job', 'load', 'part:two']);
  await database.query(`update executions set status = 'PENDING_RESUME' where id = $1`, [id]);
  expect((await get(id)).body.stack).toEqual([]);
  await database.query(`update executions set status = 'CANCELED' where id = $1`, [id]);
});

describe('values', () => {
  const exact = '{"n": 12345678901234567890, "s":"\\u0000\\ud800", "twice":1, "twice":2}';

  test('are given as they are stored, without being parsed (D33)', async () => {
    const id = await storeExecution({ args: exact, result: exact });
    const response = await fetch(new URL(`${workspace.path}/executions/${id}`, server.url), {
      headers: { authorization: `Bearer ${server.adminToken}` },
    });
    const text = await response.text();
    expect(text).toContain(`"args":${exact}`);
    expect(text).toContain(`"result":${exact}`);
  });

  test('above 16 KB are replaced by their size; the job execution has them in full', async () => {
    const fits = JSON.stringify('x'.repeat(16 * 1024 - 2));
    const large = JSON.stringify('é'.repeat(8 * 1024));
    const id = await storeExecution({ args: fits, result: large });
    const step = await storeCall(id, 'main-job', { args: large, result: fits });
    const { body } = await get(id);
    const truncated = { truncated: true, size: 16 * 1024 + 2 };
    expect(body.args).toBe(JSON.parse(fits));
    expect(body.result).toEqual(truncated);
    expect(body.jobExecutions[0]).toMatchObject({ args: truncated, result: JSON.parse(fits) });
    const full = await get<JobExecution>(id, `/job-executions/${step}`);
    expect(full.body.args).toBe(JSON.parse(large));
    for (const list of ['job-executions', 'journal']) {
      const page = await get<{ items: JobExecution[] }>(id, `/${list}`);
      expect(page.body.items[0]?.args).toEqual(truncated);
    }
  });
});

describe('lists of one execution', () => {
  interface List<T = JobExecution> {
    items: T[];
    nextCursor: string | null;
  }

  test('an answer embeds 200 steps and leads to the rest; the journal has every call', async () => {
    const id = await storeExecution();
    await storeCall(id, 'main-job');
    for (let i = 0; i < 204; i += 1) await storeCall(id, `main-job/${i}:s`);
    await storeCall(id, 'main-job/204:other', { kind: 'startWorkflow' });
    const { body } = await get<Execution & { jobExecutionsCursor: string }>(id);
    expect(body.jobExecutions.map((step) => step.path)).toEqual([
      'main-job',
      ...Array.from({ length: 199 }, (_, i) => `main-job/${i}:s`),
    ]);
    const rest = await get<List>(id, `/job-executions?cursor=${body.jobExecutionsCursor}`);
    expect(rest.body.items.map((step) => step.path)).toEqual(
      Array.from({ length: 5 }, (_, i) => `main-job/${199 + i}:s`),
    );
    expect(rest.body.nextCursor).toBeNull();

    const paths: string[] = [];
    for (let cursor = ''; ; ) {
      const page = await get<List<JobExecution & { kind: string }>>(id, `/journal?limit=100${cursor}`);
      paths.push(...page.body.items.map((call) => call.path));
      if (page.body.nextCursor === null) {
        expect(page.body.items.at(-1)).toMatchObject({ kind: 'startWorkflow', parentPath: 'main-job', position: 204 });
        break;
      }
      cursor = `&cursor=${page.body.nextCursor}`;
    }
    expect(paths).toHaveLength(206);
    expect(new Set(paths).size).toBe(206);
  });

  test('log lines in the order of writing', async () => {
    const id = await storeExecution();
    for (let i = 1; i <= 3; i += 1) {
      await insert('logs', {
        workspace_id: workspaceId,
        execution_id: id,
        id: i,
        path: 'main-job',
        run: 1,
        at: new Date(`2026-01-02T03:04:05.00${4 - i}Z`),
        level: 'info',
        message: `line ${i}`,
        attributes: i === 2 ? '{"k":1}' : null,
      });
    }
    const first = await get<List<object>>(id, '/logs?limit=2');
    expect(first.body.items).toEqual([
      { at: '2026-01-02T03:04:05.003Z', level: 'info', message: 'line 1', attributes: null, path: 'main-job', run: 1 },
      {
        at: '2026-01-02T03:04:05.002Z',
        level: 'info',
        message: 'line 2',
        attributes: { k: 1 },
        path: 'main-job',
        run: 1,
      },
    ]);
    const second = await get<List<{ message: string }>>(id, `/logs?cursor=${first.body.nextCursor}`);
    expect(second.body.items.map((line) => line.message)).toEqual(['line 3']);
  });
});

describe('the list of executions', () => {
  test('is newest first, filters, pages, and has neither values nor steps', async () => {
    const fresh = await workspace.client.createWorkspace();
    const { rows } = await database.query('select id from workspaces where name = $1', [fresh.name]);
    const ids: string[] = [];
    for (const [workflow, status] of [
      ['one', 'SUCCESS'],
      ['two', 'FAILED'],
      ['one', 'FAILED'],
      ['one', 'SUCCESS'],
    ]) {
      ids.push(await storeExecution({ workspace_id: rows[0].id, workflow, status, result: '1' }));
    }
    const list = async (query: string) => {
      const page = await fresh.client.expect<{ items: Execution[]; nextCursor: string | null }>(
        'GET',
        `${fresh.path}/executions?${query}`,
      );
      return { ...page, indexes: page.items.map((item) => ids.indexOf(item.id)) };
    };
    const all = await list('');
    expect(all.indexes).toEqual([3, 2, 1, 0]);
    for (const field of ['args', 'result', 'stack', 'jobExecutions']) expect(all.items[0]).not.toHaveProperty(field);
    expect((await list('workflow=one')).indexes).toEqual([3, 2, 0]);
    expect((await list('workflow=one&status=FAILED')).indexes).toEqual([2]);
    const page = await list('workflow=one&limit=2');
    expect(page.indexes).toEqual([3, 2]);
    expect((await list(`workflow=one&limit=2&cursor=${page.nextCursor}`)).indexes).toEqual([0]);
  });

  test('refuses a status that is none, and says which there are', async () => {
    const answer = await workspace.client.get<Problem>(`${workspace.path}/executions?status=DONE`);
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.[0]).toMatchObject({
      path: 'status',
      message: expect.stringContaining('PENDING_RESUME'),
    });
  });
});

test('what is not there, or in another workspace, is 404', async () => {
  const id = await storeExecution();
  const step = await storeCall(id, 'main-job');
  const started = await storeCall(id, 'main-job/0:x', { kind: 'startWorkflow' });
  const other = await workspace.client.createWorkspace();
  const client = workspace.client;
  const unknown = uuidv7();
  for (const path of [
    `${workspace.path}/executions/${unknown}`,
    `${workspace.path}/executions/none`,
    ...['', '/job-executions', '/journal', '/logs', `/job-executions/${step}`].flatMap((rest) => [
      `${other.path}/executions/${id}${rest}`,
      `${workspace.path}/executions/${unknown}${rest}`,
    ]),
    `${workspace.path}/executions/${id}/job-executions/none`,
    // a recorded call that is no step
    `${workspace.path}/executions/${id}/job-executions/${started}`,
  ]) {
    const answer = await client.get<Problem>(path);
    expect([path, answer.status, answer.body.code]).toEqual([path, 404, 'NOT_FOUND']);
  }
});
