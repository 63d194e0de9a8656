import { beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import { Client, type Problem, type Workspace } from '../support/client.ts';
import { bundle } from '../support/fixtures.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let client: Client;
let workspace: Workspace;

beforeAll(async () => {
  server = await startServer();
  client = new Client(server);
  workspace = await client.createWorkspace();
  await workspace.uploadJobFunction(
    'echo-job',
    'export const main = (args) => ({ args, by: tailor.context.getInvoker() });',
  );
  await workspace.putWorkflow('order-processing', 'echo-job');
});

interface Invoked {
  executionId: string;
  result: unknown;
  logs: { at: string; level: string; message: string; attributes?: unknown }[];
  usage: { peakMemoryBytes: number; memoryLimitBytes: number; cpuMs: number; wallMs: number };
  queueMs: number;
  runMs: number;
}

type Failed = Problem & Partial<Invoked> & { error: { name: string; message: string; stack: string; code: string } };

const put = (name: string, script: string) =>
  client.expect('PUT', `${workspace.path}/functions/${encodeURIComponent(name)}`, { body: script });
const invoke = <T = Invoked>(name: string, body?: unknown) =>
  client.post<T>(`${workspace.path}/functions/${encodeURIComponent(name)}/invoke`, body);
const testRun = <T = Invoked>(script: string, more: object = {}) =>
  client.post<T>(`${workspace.path}/functions/test-run`, { script, ...more });
const recordOf = (id: string | undefined) =>
  client.expect<Record<string, unknown>>('GET', `${workspace.path}/function-executions/${id}`);

const MB = 1024 * 1024;

describe('an invocation', () => {
  test('answers the result, the log lines and what it used', async () => {
    await put(
      'hello',
      `export const main = async ({ name }) => {
         console.log('hello', name);
         tailor.logger.warn('careful', { a: 1 });
         return { hello: name, by: tailor.context.getInvoker() };
       };`,
    );
    const invoker = { id: 'u1', type: 'user', attributes: ['x'], attributeMap: { k: 'v' } };
    const { status, body } = await invoke('hello', { args: { name: 'Ada' }, invoker });
    expect(status).toBe(200);
    expect(Object.keys(body).sort()).toEqual(['executionId', 'logs', 'queueMs', 'result', 'runMs', 'usage']);
    expect(body.result).toEqual({ hello: 'Ada', by: { ...invoker, workspaceId: expect.any(String) } });
    const at = expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/);
    expect(body.logs).toEqual([
      { at, level: 'info', message: 'hello Ada' },
      { at, level: 'warn', message: 'careful', attributes: { a: 1 } },
    ]);
    expect(body.usage).toMatchObject({ memoryLimitBytes: 32 * MB });
    expect(body.usage.cpuMs).toBeGreaterThan(0);
    expect(body.usage.peakMemoryBytes).toBeLessThan(32 * MB);
    expect(body.runMs).toBeGreaterThanOrEqual(body.usage.wallMs);
  });

  test.each([[undefined], [{}], [{ args: null }]])('without arguments main gets {}: %j', async (body) => {
    await put('echo', 'export const main = (args) => args;');
    expect((await invoke('echo', body)).body.result).toEqual({});
  });

  test('hands the result on as the script made it (D33)', async () => {
    await put('raw', `export const main = () => ({ b: '\\u0000\\ud800', a: 1e-7, __proto__: null });`);
    const response = await fetch(new URL(`${workspace.path}/functions/raw/invoke`, server.url), {
      method: 'POST',
      headers: { authorization: `Bearer ${server.adminToken}` },
    });
    expect(await response.text()).toContain('"result":{"b":"\\u0000\\ud800","a":1e-7}');
  });

  test('has a fresh isolate each time, and nothing of the one before', async () => {
    await put('counter', 'globalThis.n = (globalThis.n ?? 0) + 1; export const main = () => globalThis.n;');
    for (let i = 0; i < 5; i++) expect((await invoke('counter')).body.result).toBe(1);
  });

  test('runs the current version', async () => {
    await put('versions', 'export const main = () => 1;');
    expect((await invoke('versions')).body.result).toBe(1);
    await put('versions', 'export const main = () => 2;');
    const { body } = await invoke('versions');
    expect(body.result).toBe(2);
    expect(await recordOf(body.executionId)).toMatchObject({ function: 'versions', version: 2 });
    expect((await client.delete(`${workspace.path}/functions/versions`)).status).toBe(204);
    expect((await invoke<Problem>('versions')).body).toMatchObject({ status: 404, code: 'NOT_FOUND' });
  });

  test('many at once give each its own answer', async () => {
    await put(
      'square',
      `export const main = async ({ n }) => { await new Promise((r) => setTimeout(r, 5)); return n * n; };`,
    );
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => invoke('square', { args: { n } })));
    expect(answers.map(({ body }) => body.result)).toEqual(answers.map((_, n) => n * n));
  });
});

describe('a failure of the script is 422, and the run comes with it', () => {
  const memory = /^Memory limit exceeded: used (\d+) MB of 32 MB limit$/;
  const cases: [string, string, string, RegExp | string][] = [
    [
      'throws',
      `export const main = () => { console.log('so far'); throw new TypeError('on purpose'); };`,
      'SCRIPT_ERROR',
      'The function threw TypeError: on purpose',
    ],
    [
      'throws-at-run',
      `if (typeof tailor.context.getInvoker()?.id === 'string') throw new Error('top');\nexport const main = () => 1;`,
      'SCRIPT_ERROR',
      /top/,
    ],
    [
      'heap',
      'export const main = () => { const a = []; for (;;) a.push({ n: a.length, s: String(a.length) }); };',
      'MEMORY_LIMIT_EXCEEDED',
      memory,
    ],
    [
      'buffers',
      'export const main = () => { const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1)); };',
      'MEMORY_LIMIT_EXCEEDED',
      memory,
    ],
    [
      'big-buffer',
      'export const main = () => new Uint8Array(200 << 20).fill(1).length;',
      'MEMORY_LIMIT_EXCEEDED',
      memory,
    ],
    ['big-result', `export const main = () => 'x'.repeat(5 << 20);`, 'PAYLOAD_TOO_LARGE', /4 MiB|4194304|4 MB/],
    [
      'circular',
      'export const main = () => { const a = {}; a.a = a; return a; };',
      'RESULT_NOT_SERIALIZABLE',
      /result/,
    ],
    ['bigint', 'export const main = () => ({ n: 1n });', 'RESULT_NOT_SERIALIZABLE', /result/],
    ['no-main', `export const main = tailor.context.getInvoker() ? 1 : () => 1;`, 'INVALID_SCRIPT', /no main/],
    ['stuck', 'export const main = () => new Promise(() => {});', 'SCRIPT_ERROR', /never settle/],
  ];
  const invoker = { id: 'u1', type: 'user' };

  test.each(cases)('%s', async (name, script, code, detail) => {
    await put(name, script);
    const { status, headers, body } = await invoke<Failed>(name, { invoker });
    expect({ status, code: body.code }, JSON.stringify(body)).toEqual({ status: 422, code });
    expect(headers.get('content-type')).toMatch('application/problem+json');
    expect(body.status).toBe(422);
    expect(body.detail).toMatch(detail);
    const used = memory.exec(body.detail)?.[1];
    if (used !== undefined) expect(Number(used)).toBeGreaterThan(32);
    expect(body.usage).toMatchObject({ memoryLimitBytes: 32 * MB });
    expect(body.error).toMatchObject({ code, message: expect.any(String) });
    expect(JSON.stringify(body)).not.toMatch(/\/src\/|\/dist\/|node:internal/);
    if (name === 'throws') {
      expect(body.logs?.map((line) => line.message)).toEqual(['so far']);
      expect(body.error.stack).toContain('throws@1.js:1');
    }
    expect(await recordOf(body.executionId)).toMatchObject({
      function: name,
      type: 'STANDARD',
      status: 'FAILED',
      result: null,
      error: {
        code,
        at: name,
        kind: ['SCRIPT_ERROR', 'RESULT_NOT_SERIALIZABLE'].includes(code) ? 'USER_RUNTIME' : 'USER_NON_RUNTIME',
      },
    });
    // Nothing of it stays behind.
    expect((await testRun('export const main = () => 1;')).body.result).toBe(1);
  });

  test('an ArrayBuffer that was refused may be caught', async () => {
    const { status, body } = await testRun(
      `export const main = () => { try { new ArrayBuffer(1 << 30); } catch (error) { return error.name; } return 'none'; };`,
    );
    expect({ status, result: body.result }).toEqual({ status: 200, result: 'RangeError' });
  });
});

describe('calls of a function', () => {
  test('startWorkflow starts an execution one level deeper, and answers its id', async () => {
    await put('start-order', bundle('resolver-start-order'));
    const bot = await workspace.putMachineUser('my-auth', 'bot');
    const args = { input: { orderId: 'o1', skus: ['a'] }, caller: { id: 'c1' } };
    const invoker = { id: 'm1', type: 'machine_user', attributes: [], attributeMap: {} };
    const { status, body } = await invoke<Invoked & { result: { executionId: string } }>('start-order', {
      args,
      invoker,
    });
    expect({ status, result: body.result }).toEqual({
      status: 200,
      result: { executionId: expect.any(String), by: 'c1', invokerType: 'machine_user' },
    });
    expect(await workspace.finished(body.result.executionId)).toMatchObject({
      status: 'SUCCESS',
      workflow: 'order-processing',
      depth: 1,
      parent: null,
      args: { orderId: 'o1', skus: ['a'] },
      result: { by: { id: bot.id } },
    });
    const invalid = await invoke<Failed>('start-order', { args: { input: {} } });
    expect(invalid.body).toMatchObject({ status: 422, code: 'SCRIPT_ERROR', error: { name: 'TailorErrors' } });
  });

  test.each(['no-such-flow', 'A/\\0', '\\ud800', ''])(
    'a workflow that there is not is an error at the call: %j',
    async (name) => {
      const { body } = await testRun(`export const main = async () => {
      try { await tailor.workflow.triggerWorkflow('${name}', {}); } catch (error) { return [error.code, error.message]; }
    };`);
      expect(body.result).toEqual([
        'WORKFLOW_NOT_FOUND',
        expect.stringMatching(/^startWorkflow failed: there is no workflow ".*" in this workspace\./),
      ]);
    },
  );

  test.each([
    ['execJobFunction', `tailor.workflow.execJobFunction('echo-job', {})`],
    ['wait', `tailor.workflow.wait('approval')`],
  ])('%s is an error that says why, and what to do', async (op, call) => {
    for (const type of ['STANDARD', 'JOB']) {
      const caught = await testRun(
        `export const main = async () => { try { await ${call}; } catch (error) { return [error.code, error.message]; } };`,
        { type },
      );
      expect(caught.body.result).toEqual([
        'CALL_NOT_ALLOWED',
        expect.stringMatching(new RegExp(`^${op} failed: .*only inside a workflow.*startWorkflow`)),
      ]);
    }
    const { body } = await testRun<Failed>(`export const main = async () => { await ${call}; };`);
    expect(body).toMatchObject({ status: 422, code: 'SCRIPT_ERROR', error: { code: 'CALL_NOT_ALLOWED' } });
  });

  test('log lines before a call come in their order', async () => {
    const { body } = await testRun(`export const main = async () => {
      console.log('1'); await tailor.workflow.startWorkflow('order-processing'); console.log('2');
      await new Promise((r) => setTimeout(r, 60)); console.log('3');
    };`);
    expect(body.logs.map((line) => line.message)).toEqual(['1', '2', '3']);
    expect(body.result).toBe(null);
  });
});

describe('a test run', () => {
  test('runs a script that is not stored', async () => {
    const { status, body } = await testRun('globalThis.main = async (args) => ({ got: args });', { args: [1] });
    expect(status).toBe(200);
    expect(body).toMatchObject({ result: { got: [1] }, usage: { memoryLimitBytes: 32 * MB } });
    expect(await recordOf(body.executionId)).toMatchObject({
      function: null,
      version: null,
      type: 'STANDARD',
      status: 'SUCCESS',
      args: [1],
    });
    const list = await client.expect<{ items: { name: string }[] }>('GET', `${workspace.path}/functions`);
    expect(list.items.some(({ name }) => name === 'test-run')).toBe(false);
  });

  test('as JOB it has the limits of a job function', async () => {
    const hungry =
      'export const main = () => { const a = []; for (let i = 0; i < 100; i++) a.push(new Uint8Array(1 << 20).fill(1)); return a.length; };';
    expect((await testRun<Failed>(hungry)).body.code).toBe('MEMORY_LIMIT_EXCEEDED');
    const { body } = await testRun(hungry, { type: 'JOB' });
    expect(body).toMatchObject({ result: 100, usage: { memoryLimitBytes: 256 * MB } });
    expect(await recordOf(body.executionId)).toMatchObject({ type: 'JOB', status: 'SUCCESS', step: null });
  });

  test.each([
    ['a syntax error', 'export const main = () => {\n  return 1 +;\n};', 2],
    ['a throw at the top level', 'export const main = () => 1;\n\nthrow new Error("at the top");', 3],
    ['no main', 'export const other = 1;', null],
    ['an endless top level', 'for (;;);', null],
  ])('%s is INVALID_SCRIPT with its place', async (_name, script, line) => {
    const { status, body } = await testRun<Failed>(script);
    expect(status).toBe(422);
    expect(body).toMatchObject({
      code: 'INVALID_SCRIPT',
      line,
      logs: [],
      usage: { cpuMs: 0 },
      executionId: expect.any(String),
    });
    expect(await recordOf(body.executionId)).toMatchObject({
      status: 'FAILED',
      error: { code: 'INVALID_SCRIPT', at: 'test-run' },
    });
  });
});

describe('CPU limits are the configured ones', () => {
  const spin = 'export const main = () => { for (;;); };';
  let small: Workspace;
  beforeAll(async () => {
    const env = { JOBCELL_FUNCTION_CPU_MS: '300', JOBCELL_JOB_FUNCTION_CPU_MS: '600' };
    small = await new Client(await startServer({ env })).createWorkspace();
  });

  test.each([
    ['STANDARD', spin, 300],
    ['STANDARD', 'export const main = async () => { for (;;) await null; };', 300],
    ['JOB', spin, 600],
  ])('%s', async (type, script, limit) => {
    const { status, body } = await small.client.post<Failed>(`${small.path}/functions/test-run`, { script, type });
    expect({ status, code: body.code }).toEqual({ status: 422, code: 'CPU_LIMIT_EXCEEDED' });
    const [, used, of] = /^CPU limit exceeded: used (\d+) ms of (\d+) ms limit$/.exec(body.detail)!;
    expect(Number(of)).toBe(limit);
    expect(Number(used)).toBeGreaterThan(limit);
    expect(body.usage?.cpuMs).toBeGreaterThan(limit);
    expect(await small.client.expect('GET', `${small.path}/function-executions/${body.executionId}`)).toMatchObject({
      status: 'FAILED',
      error: { code: 'CPU_LIMIT_EXCEEDED', kind: 'USER_NON_RUNTIME' },
    });
  });

  test('of a job function in a workflow', async () => {
    await small.uploadJobFunction('spin', spin);
    await small.putWorkflow('spin-flow', 'spin');
    const { error } = await small.run('spin-flow');
    expect(error).toMatchObject({ code: 'CPU_LIMIT_EXCEEDED', message: expect.stringMatching(/of 600 ms limit$/) });
  });
});

describe('what is not valid is refused, and nothing is run or stored', () => {
  const count = async () =>
    (await client.expect<{ items: object[] }>('GET', `${workspace.path}/function-executions?limit=200`)).items.length;
  const cases: [string, string, unknown, number, string, string | undefined][] = [
    ['an unknown function', '/functions/none/invoke', {}, 404, 'NOT_FOUND', undefined],
    ['a name outside the grammar', `/functions/${'x'.repeat(129)}/invoke`, {}, 400, 'BAD_REQUEST', 'name'],
    ['an unknown field', '/functions/echo/invoke', { arg: 1 }, 400, 'BAD_REQUEST', 'arg'],
    [
      'an invoker that is none',
      '/functions/echo/invoke',
      { invoker: { id: 'u', type: 'robot' } },
      400,
      'BAD_REQUEST',
      'invoker.type',
    ],
    [
      'arguments above 4 MiB',
      '/functions/echo/invoke',
      { args: 'x'.repeat(4 * MB) },
      413,
      'PAYLOAD_TOO_LARGE',
      undefined,
    ],
    ['a body above that', '/functions/echo/invoke', { args: 'x'.repeat(6 * MB) }, 413, 'PAYLOAD_TOO_LARGE', undefined],
    ['no script', '/functions/test-run', {}, 400, 'BAD_REQUEST', 'script'],
    ['no body', '/functions/test-run', undefined, 400, 'BAD_REQUEST', 'body'],
    ['half a surrogate pair', '/functions/test-run', { script: '"\ud800"' }, 400, 'BAD_REQUEST', 'script'],
    ['an unknown type', '/functions/test-run', { script: '1', type: 'FAST' }, 400, 'BAD_REQUEST', 'type'],
    [
      'a script above 16 MiB',
      '/functions/test-run',
      { script: ' '.repeat(limits.scriptBytes + 1) },
      413,
      'PAYLOAD_TOO_LARGE',
      undefined,
    ],
  ];
  test.each(cases)('%s', async (_name, path, body, status, code, field) => {
    await put('echo', 'export const main = (args) => args;');
    const before = await count();
    const answer = await client.post<Problem>(workspace.path + path, body);
    expect({ status: answer.status, code: answer.body.code }).toEqual({ status, code });
    expect(answer.body.errors?.[0]?.path).toBe(field);
    expect(await count()).toBe(before);
  });

  test("another workspace's token opens nothing, one of its own does", async () => {
    await put('echo', 'export const main = (args) => args;');
    const other = await client.createWorkspace();
    const { token } = await client.expect<{ token: string }>('POST', `${other.path}/tokens`, { body: { name: 't' } });
    const own = await client.expect<{ token: string }>('POST', `${workspace.path}/tokens`, { body: { name: 't' } });
    const { body } = await invoke('echo');
    for (const [token1, status] of [
      [token, 404],
      [own.token, 200],
    ] as const) {
      const caller = new Client(server, token1);
      expect((await caller.post(`${workspace.path}/functions/echo/invoke`)).status).toBe(status);
      expect(
        (await caller.post(`${workspace.path}/functions/test-run`, { script: 'export const main = () => 1' })).status,
      ).toBe(status);
      expect((await caller.get(`${workspace.path}/function-executions/${body.executionId}`)).status).toBe(status);
    }
    expect((await new Client(server, null).post(`${workspace.path}/functions/echo/invoke`)).status).toBe(401);
    // Ids say nothing across workspaces.
    expect((await client.get(`${other.path}/function-executions/${body.executionId}`)).status).toBe(404);
  });
});

describe('the script of a function', () => {
  test('is uploaded, read, listed and deleted like that of a job function', async () => {
    const script = 'export const main = () => "f";';
    const path = `${workspace.path}/functions/${encodeURIComponent('My.Function 1')}`;
    const stored = await client.put<{ name: string; version: number }>(path, script);
    expect(stored.body).toMatchObject({ name: 'My.Function 1', version: 1, size: script.length });
    expect((await client.get(path)).body).toEqual(stored.body);
    expect((await client.get(`${path}/script`)).body).toBe(script);
    // The two kinds share no names.
    expect((await client.get(`${workspace.path}/job-functions/${encodeURIComponent('My.Function 1')}`)).status).toBe(
      404,
    );
    expect((await client.get(`${workspace.path}/functions/echo-job`)).status).toBe(404);
    const broken = await client.put<Problem>(path, 'export const main = 7;');
    expect(broken.body).toMatchObject({
      code: 'INVALID_SCRIPT',
      detail: expect.stringMatching(/^Function `My\.Function 1` was not stored/),
    });
    expect((await client.delete(path)).status).toBe(204);
    expect((await client.delete<Problem>(path)).body.detail).toContain('no function `My.Function 1`');
  });

  test('maps stacks through its source map', async () => {
    const map = { version: 3, sources: ['order.ts'], names: [], mappings: 'AAAA' };
    const script = `export const main = () => { throw new Error('mapped'); };`;
    await client.expect('PUT', `${workspace.path}/functions/mapped`, { body: { script, sourceMap: map } });
    expect((await invoke<Failed>('mapped')).body.error.stack).toContain('order.ts:1');
  });
});
