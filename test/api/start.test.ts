import { beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import { Client, type Execution, type Problem, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let workspace: Workspace;
let client: Client;

beforeAll(async () => {
  server = await startServer();
  client = new Client(server);
  workspace = await client.createWorkspace();
  await workspace.uploadJobFunctions({
    echo: 'export const main = (args) => args;',
    slow: `export const main = async () => { await new Promise((done) => setTimeout(done, 3_000)); return 'slow'; };`,
    fails: `export const main = () => { throw new TypeError('on purpose'); };`,
  });
  for (const name of ['echo', 'slow', 'fails']) await workspace.putWorkflow(`${name}-flow`, name);
});

const start = <T = { executionId: string }>(workflow: string, body?: unknown, query = '', headers = {}) =>
  client.post<T>(`${workspace.path}/workflows/${workflow}/start${query}`, body, { headers });
const count = async () =>
  (await client.expect<{ items: object[] }>('GET', `${workspace.path}/executions?limit=200`)).items.length;

describe('a start', () => {
  test('answers 202 with the id, and where to look', async () => {
    const answer = await start('echo-flow', { args: { a: 1 } });
    expect(answer.status).toBe(202);
    expect(Object.keys(answer.body)).toEqual(['executionId']);
    expect(answer.headers.get('location')).toBe(`${workspace.path}/executions/${answer.body.executionId}`);
    const execution = await workspace.finished(answer.body.executionId);
    expect(execution).toMatchObject({ status: 'SUCCESS', args: { a: 1 }, result: { a: 1 } });
  });

  test.each([[undefined], [{}], [{ args: null }]])('without arguments main gets {}: %j', async (body) => {
    const answer = await start<Execution>('echo-flow', body, '?wait=60');
    expect(answer.body.result).toEqual({});
  });

  test('keeps any JSON as it is, U+0000 and lone surrogates included (D33)', async () => {
    const args = { s: '\u0000\ud800', constructor: { prototype: 1 }, deep: [[[{ é: null }]]], f: 1e-7 };
    const text = `{"args":${JSON.stringify(args).replace('{', '{"__proto__":{"x":1},')}}`;
    const response = await fetch(new URL(`${workspace.path}/workflows/echo-flow/start?wait=60`, server.url), {
      method: 'POST',
      headers: { authorization: `Bearer ${server.adminToken}`, 'content-type': 'application/json' },
      body: text,
    });
    const answer = await response.text();
    expect(answer).toContain(`"args":${text.slice('{"args":'.length, -1)}`);
    expect((JSON.parse(answer) as Execution).result).toMatchObject(args);
  });

  test('takes numbers as JavaScript has them, and refuses what is too large for it', async () => {
    const raw = (args: string) =>
      client.post<Problem & Execution>(`${workspace.path}/workflows/echo-flow/start?wait=30`, `{"args":${args}}`, {
        headers: { 'content-type': 'application/json' },
      });
    const answer = await raw('{"id":12345678901234567890,"large":1e300,"text":"1e400"}');
    expect(answer.body).toMatchObject({ args: { id: 12345678901234567000, large: 1e300 }, result: { text: '1e400' } });
    for (const number of ['1e400', '-1E+0999', `${'9'.repeat(320)}`, `${'9'.repeat(250)}e99`]) {
      const { status, body } = await raw(`{"deep":[{"price":${number}}]}`);
      expect({ status, code: body.code, detail: body.detail }).toEqual({
        status: 400,
        code: 'BAD_REQUEST',
        detail: expect.stringContaining(number.slice(0, 40)),
      });
    }
  });

  test('refuses what is nested so deeply that reading it would stall the server', async () => {
    const raw = (args: string) =>
      client.post<Problem & Execution>(`${workspace.path}/workflows/echo-flow/start?wait=30`, `{"args":${args}}`, {
        headers: { 'content-type': 'application/json' },
      });
    // The object around `args` is a level, too.
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    expect((await raw(nested(limits.jsonDepth - 1))).body.status).toBe('SUCCESS');
    for (const levels of [limits.jsonDepth, 2_000_000]) {
      const { status, body } = await raw(nested(levels));
      expect({ status, code: body.code, detail: body.detail }).toEqual({
        status: 400,
        code: 'BAD_REQUEST',
        detail: expect.stringContaining('nested more than 1000 levels deep'),
      });
    }
  });

  test('with `wait` answers 200 with the finished execution, whatever its end', async () => {
    const good = await start<Execution>('echo-flow', { args: [1] }, '?wait=60');
    expect(good.status).toBe(200);
    expect(good.body).toMatchObject({ status: 'SUCCESS', result: [1], jobExecutions: [{ path: 'echo', runs: 1 }] });
    const bad = await start<Execution>('fails-flow', {}, '?wait=60');
    expect(bad.status).toBe(200);
    expect(bad.body).toMatchObject({
      status: 'FAILED',
      error: { name: 'TypeError', message: 'on purpose', at: 'fails' },
    });
  });

  test('with `wait` answers 202 when the seconds have passed', async () => {
    const answer = await start('slow-flow', {}, '?wait=0.2');
    expect(answer.status).toBe(202);
    expect((await workspace.finished(answer.body.executionId)).result).toBe('slow');
  });
});

describe('an idempotency key', () => {
  test('answers the first execution again; with other arguments, 409', async () => {
    const headers = { 'idempotency-key': 'order-7' };
    const first = await start('echo-flow', { args: { a: 1, b: 2 } }, '', headers);
    const before = await count();
    const again = await start('echo-flow', { args: { b: 2, a: 1 } }, '', headers);
    expect(again.body).toEqual(first.body);
    const other = await start<Problem>('echo-flow', { args: { a: 2 } }, '', headers);
    expect(other.status).toBe(409);
    expect(other.body).toMatchObject({
      code: 'IDEMPOTENCY_MISMATCH',
      detail: expect.stringContaining(first.body.executionId),
    });
    expect(await count()).toBe(before);
    // The key belongs to the workflow.
    expect((await start('fails-flow', {}, '', headers)).body.executionId).not.toBe(first.body.executionId);
  });

  test('has 1 to 255 characters', async () => {
    for (const key of ['', 'x'.repeat(256)]) {
      const answer = await start<Problem>('echo-flow', {}, '', { 'idempotency-key': key });
      expect(answer.status).toBe(400);
      expect(answer.body.errors?.[0]?.path).toBe('idempotency-key');
      expect(answer.body.detail).toMatch(/^The headers are not valid: `idempotency-key` must have /);
    }
    expect((await start('echo-flow', {}, '', { 'idempotency-key': 'x'.repeat(255) })).status).toBe(202);
  });
});

describe('what cannot be started: coded, and nothing is stored', () => {
  const cases: [string, string, unknown, string, number, string, string | undefined][] = [
    ['an unknown workflow', 'no-flow', {}, '', 404, 'NOT_FOUND', undefined],
    ['a name outside the grammar', 'No_Flow', {}, '', 400, 'BAD_REQUEST', 'name'],
    ['an unknown field', 'echo-flow', { arg: 1 }, '', 400, 'BAD_REQUEST', 'arg'],
    ['an unknown replay mode', 'echo-flow', { replay: 'never' }, '', 400, 'BAD_REQUEST', 'replay'],
    [
      'an invoker that is none',
      'echo-flow',
      { invoker: { id: 'u', type: 'robot' } },
      '',
      400,
      'BAD_REQUEST',
      'invoker.type',
    ],
    ['a wait above 60', 'echo-flow', {}, '?wait=61', 400, 'BAD_REQUEST', 'wait'],
    ['a wait below 0', 'echo-flow', {}, '?wait=-1', 400, 'BAD_REQUEST', 'wait'],
    ['a wait that is no number', 'echo-flow', {}, '?wait=long', 400, 'BAD_REQUEST', 'wait'],
    [
      'arguments above 4 MiB',
      'echo-flow',
      { args: 'x'.repeat(4 * 1024 * 1024) },
      '',
      413,
      'PAYLOAD_TOO_LARGE',
      undefined,
    ],
    ['a body above that', 'echo-flow', { args: 'x'.repeat(6 * 1024 * 1024) }, '', 413, 'PAYLOAD_TOO_LARGE', undefined],
  ];
  test.each(cases)('%s', async (_name, workflow, body, query, status, code, path) => {
    const before = await count();
    const answer = await start<Problem>(workflow, body, query);
    expect(answer.status).toBe(status);
    expect(answer.body.code).toBe(code);
    expect(answer.body.errors?.[0]?.path).toBe(path);
    if (status === 413) expect(answer.body.detail).toContain('4 MiB');
    expect(await count()).toBe(before);
  });

  test('arguments of 4 MiB are taken', async () => {
    const answer = await start<Execution>('echo-flow', { args: 'x'.repeat(4 * 1024 * 1024 - 2) }, '?wait=60');
    expect(answer.body).toMatchObject({ status: 'SUCCESS', result: { truncated: true, size: 4 * 1024 * 1024 } });
  });
});
