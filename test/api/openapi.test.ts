import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Answer, Client, type Workspace } from '../support/client.ts';
import { startServer } from '../support/server.ts';

interface Operation {
  operationId: string;
  summary: string;
  tags: string[];
  security?: object[];
  responses: Record<string, { description: string; content?: Record<string, { schema: object }> }>;
}

interface Page {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object>; securitySchemes: object };
  security: object[];
}

let page: Page;
let client: Client;
let workspace: Workspace;

beforeAll(async () => {
  client = new Client(await startServer());
  page = await client.expect<Page>('GET', '/openapi.json');
  workspace = await client.createWorkspace();
});

const operations = () =>
  Object.entries(page.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
  );

test('every route of the interface is on the page', () => {
  const w = '/v1/workspaces/{workspace}';
  expect(operations().map(({ method, path }) => `${method} ${path}`)).toEqual(
    expect.arrayContaining([
      'get /healthz',
      'get /readyz',
      'get /openapi.json',
      'get /v1/workspaces',
      ...['put', 'get', 'delete'].map((method) => `${method} ${w}`),
      ...['get', 'post'].map((method) => `${method} ${w}/tokens`),
      `delete ${w}/tokens/{tokenId}`,
      ...['job-functions', 'functions', 'workflows'].flatMap((resource) => [
        `get ${w}/${resource}`,
        ...['put', 'get', 'delete'].map((method) => `${method} ${w}/${resource}/{name}`),
      ]),
      `get ${w}/job-functions/{name}/script`,
      `get ${w}/functions/{name}/script`,
      `post ${w}/functions/{name}/invoke`,
      `post ${w}/functions/test-run`,
      ...['', '/{executionId}', '/{executionId}/logs'].map((rest) => `get ${w}/function-executions${rest}`),
      ...['put', 'get', 'delete'].flatMap((method) => [
        `${method} ${w}/machine-users/{namespace}/{name}`,
        `${method} ${w}/vaults/{vault}`,
        `${method} ${w}/vaults/{vault}/secrets/{name}`,
        `${method} ${w}/tailordb/{namespace}`,
      ]),
      ...['machine-users', 'vaults', 'vaults/{vault}/secrets', 'tailordb'].map((list) => `get ${w}/${list}`),
      `post ${w}/tailordb/{namespace}/sql`,
      `post ${w}/workflows/{name}/start`,
      `get ${w}/executions`,
      ...['', '/job-executions', '/job-executions/{jobExecutionId}', '/journal', '/logs'].map(
        (rest) => `get ${w}/executions/{executionId}${rest}`,
      ),
    ]),
  );
});

test('each operation has a name of its own, a summary, a tag, its success and its problems', () => {
  expect(page.openapi).toBe('3.1.0');
  expect(page.security).toEqual([{ bearer: [] }]);
  expect(page.components.securitySchemes).toMatchObject({ bearer: { type: 'http', scheme: 'bearer' } });
  const all = operations();
  expect(new Set(all.map((operation) => operation.operationId)).size).toBe(all.length);
  for (const { path, summary, tags, security, responses } of all) {
    expect(summary).toBeTruthy();
    expect(tags).toHaveLength(1);
    expect(Object.keys(responses).some((status) => status.startsWith('2'))).toBe(true);
    for (const [status, response] of Object.entries(responses)) {
      if (status >= '400') expect(Object.keys(response.content ?? {})).toEqual(['application/problem+json']);
    }
    if (path.startsWith('/v1/')) expect(responses).toHaveProperty('401');
    else expect(security).toEqual([]);
  }
});

test('a script upload is JSON or a script', () => {
  const put = page.paths['/v1/workspaces/{workspace}/job-functions/{name}']!.put as Operation & {
    requestBody: { content: Record<string, { schema: { type: string } }> };
  };
  const types = Object.entries(put.requestBody.content).map(([type, { schema }]) => [type, schema.type]);
  expect(Object.fromEntries(types)).toEqual({
    'application/json': 'object',
    'text/javascript': 'string',
    'application/javascript': 'string',
  });
});

/** The schema of an answer as a zod schema that also refuses members that the page does not name. */
function answerSchema(method: string, path: string, status: number): z.ZodType {
  const { content = {} } = page.paths[path]![method]!.responses[status]!;
  const [{ schema } = { schema: {} }] = Object.values(content);
  const text = JSON.stringify({ ...schema, $defs: page.components.schemas }).replaceAll(
    '#/components/schemas/',
    '#/$defs/',
  );
  return z.fromJSONSchema(closed(JSON.parse(text)) as z.core.JSONSchema.JSONSchema);
}

function closed(node: unknown): unknown {
  if (typeof node !== 'object' || node === null) return node;
  if (Array.isArray(node)) return node.map(closed);
  const members = Object.fromEntries(Object.entries(node).map(([name, child]) => [name, closed(child)]));
  return 'properties' in members && members.type === 'object' ? { additionalProperties: false, ...members } : members;
}

describe('answers look as the page says', () => {
  test('along the way of an execution', async () => {
    const w = '/v1/workspaces/{workspace}';
    const check = async (method: string, template: string, path: string, body?: unknown): Promise<Answer<never>> => {
      const answer = await client.request(method.toUpperCase(), path, body === undefined ? {} : { body });
      const parsed = answerSchema(method, template, answer.status).safeParse(answer.body);
      expect(parsed.error?.issues ?? [], `${method} ${path} ${answer.status}`).toEqual([]);
      return answer as Answer<never>;
    };
    const { path } = workspace;
    await check('put', w, path, {});
    await check('get', w, path);
    await check('get', '/v1/workspaces', '/v1/workspaces?limit=1');
    await check('post', `${w}/tokens`, `${path}/tokens`, { name: 'x' });
    await check('get', `${w}/tokens`, `${path}/tokens`);
    const script = `export const main = () => { console.log('hello', { a: 1 }); throw new Error('on purpose'); };`;
    await check('put', `${w}/job-functions/{name}`, `${path}/job-functions/job`, { script });
    await check('get', `${w}/job-functions/{name}`, `${path}/job-functions/job`);
    await check('get', `${w}/job-functions`, `${path}/job-functions`);
    await check('put', `${w}/workflows/{name}`, `${path}/workflows/flow`, {
      mainJobFunction: 'job',
      retryPolicy: { maxRetries: 1, initialBackoff: '1s', maxBackoff: '1s', backoffMultiplier: 1 },
    });
    await check('get', `${w}/workflows`, `${path}/workflows`);
    await check('get', `${w}/workflows/{name}`, `${path}/workflows/flow`);
    const started = await check('post', `${w}/workflows/{name}/start`, `${path}/workflows/flow/start`, {});
    const { executionId } = started.body as { executionId: string };
    const execution = `${w}/executions/{executionId}`;
    const finished = await workspace.finished(executionId);
    await check('get', execution, `${path}/executions/${executionId}`);
    await check('get', `${w}/executions`, `${path}/executions`);
    await check('get', `${execution}/logs`, `${path}/executions/${executionId}/logs`);
    await check('get', `${execution}/journal`, `${path}/executions/${executionId}/journal`);
    await check('get', `${execution}/job-executions`, `${path}/executions/${executionId}/job-executions`);
    await check(
      'get',
      `${execution}/job-executions/{jobExecutionId}`,
      `${path}/executions/${executionId}/job-executions/${finished.jobExecutions[0]!.id}`,
    );
    const working = `export const main = (args) => { tailor.logger.info('hello', { a: 1 }); return args; };`;
    for (const [name, body] of [
      ['works', { script: working }],
      ['fails', { script }],
    ] as const) {
      await check('put', `${w}/functions/{name}`, `${path}/functions/${name}`, body);
      await check('get', `${w}/functions/{name}`, `${path}/functions/${name}`);
      const invoked = await check('post', `${w}/functions/{name}/invoke`, `${path}/functions/${name}/invoke`, {});
      const run = `${path}/function-executions/${(invoked.body as { executionId: string }).executionId}`;
      await check('get', `${w}/function-executions/{executionId}`, run);
      await check('get', `${w}/function-executions/{executionId}/logs`, `${run}/logs`);
    }
    const user = `${w}/machine-users/{namespace}/{name}`;
    await check('put', user, `${path}/machine-users/auth/bot`, { attributes: ['a'], attributeMap: { b: 1 } });
    await check('get', user, `${path}/machine-users/auth/bot`);
    await check('get', `${w}/machine-users`, `${path}/machine-users`);
    await check('put', `${w}/vaults/{vault}`, `${path}/vaults/main`, {});
    await check('get', `${w}/vaults`, `${path}/vaults`);
    const secret = `${w}/vaults/{vault}/secrets/{name}`;
    await check('put', secret, `${path}/vaults/main/secrets/KEY`, { value: 'x' });
    await check('get', secret, `${path}/vaults/main/secrets/KEY`);
    await check('get', `${w}/vaults/{vault}/secrets`, `${path}/vaults/main/secrets`);
    await check('put', `${w}/tailordb/{namespace}`, `${path}/tailordb/main`, {});
    await check('get', `${w}/tailordb`, `${path}/tailordb`);
    const sql = `${w}/tailordb/{namespace}/sql`;
    await check('post', sql, `${path}/tailordb/main/sql`, { sql: 'create table t (n int)' });
    await check('post', sql, `${path}/tailordb/main/sql`, { sql: 'selec 1' });
    await check('get', `${w}/functions`, `${path}/functions`);
    await check('get', `${w}/function-executions`, `${path}/function-executions`);
    await check('post', `${w}/functions/test-run`, `${path}/functions/test-run`, { script: working });
    await check('post', `${w}/functions/test-run`, `${path}/functions/test-run`, { script: 'no script' });
  });

  test('a problem, too, and the test would see a difference', async () => {
    const answer = await client.get<object>(`${workspace.path}/workflows/none`);
    const schema = answerSchema('get', '/v1/workspaces/{workspace}/workflows/{name}', 404);
    expect(schema.safeParse(answer.body).success).toBe(true);
    expect(schema.safeParse({ ...answer.body, code: 'NO_SUCH_CODE' }).success).toBe(false);
    const list = answerSchema('get', '/v1/workspaces/{workspace}/workflows', 200);
    expect(list.safeParse({ items: [], nextCursor: null }).success).toBe(true);
    expect(list.safeParse({ items: [], nextCursor: null, more: 1 }).success).toBe(false);
    expect(list.safeParse({ items: [{ name: 'x' }], nextCursor: null }).success).toBe(false);
  });
});
