import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Problem, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let admin: Client;
let workspace: Workspace;
let other: Workspace;
let tenant: Client;

beforeAll(async () => {
  server = await startServer();
  admin = new Client(server);
  workspace = await admin.createWorkspace();
  other = await admin.createWorkspace();
  const { token } = await admin.expect<{ token: string }>('POST', `${workspace.path}/tokens`, { body: { name: 'ci' } });
  tenant = new Client(server, token);
});

test.each(['/healthz', '/readyz', '/openapi.json'])('%s needs no token', async (path) => {
  expect((await new Client(server, null).get(path)).status).toBe(200);
});

describe('without a valid token: 401, and nothing is stored', () => {
  const tokens: Record<string, string | null> = {
    none: null,
    unknown: 'jobcell_unknown',
    'a part of the right one': 'x',
  };
  test.each(Object.entries(tokens))('%s', async (_name, token) => {
    const client = new Client(server, token);
    for (const path of ['/v1/workspaces/intruder', `${workspace.path}/job-functions/intruder`]) {
      const answer = await client.put<Problem>(path, path.includes('job') ? 'export const main = () => 1' : {});
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="jobcell"');
      expect(answer.headers.get('content-type')).toMatch('application/problem+json');
      expect(answer.body).toMatchObject({ status: 401, code: 'UNAUTHORIZED', title: 'No valid token' });
    }
    expect((await admin.get('/v1/workspaces/intruder')).status).toBe(404);
    expect((await admin.get(`${workspace.path}/job-functions/intruder`)).status).toBe(404);
  });

  test('a header that is no bearer token says what it must be', async () => {
    const answer = await new Client(server, null).get<Problem>('/v1/workspaces', {
      headers: { authorization: `Basic ${Buffer.from('a:b').toString('base64')}` },
    });
    expect(answer.status).toBe(401);
    expect(answer.body.detail).toContain('`Bearer <token>`');
  });
});

describe('a workspace token', () => {
  test('opens its workspace', async () => {
    expect((await tenant.get(workspace.path)).status).toBe(200);
    expect((await tenant.get(`${workspace.path}/workflows`)).status).toBe(200);
  });

  test('answers 404 elsewhere, the same for a workspace that exists and one that does not', async () => {
    const details = [];
    for (const name of [other.name, 'no-such-workspace']) {
      for (const path of ['', '/workflows', '/executions', '/job-functions/x']) {
        const answer = await tenant.get<Problem>(`/v1/workspaces/${name}${path}`);
        expect(answer.status).toBe(404);
        expect(answer.body.code).toBe('NOT_FOUND');
        details.push(answer.body.detail.replace(name, '*'));
      }
    }
    expect(new Set(details).size).toBe(1);
    const put = await tenant.put(`${other.path}/job-functions/intruder`, 'export const main = () => 1');
    expect(put.status).toBe(404);
    expect((await admin.get(`${other.path}/job-functions/intruder`)).status).toBe(404);
  });

  test('does not manage workspaces or tokens', async () => {
    const answers = [
      await tenant.get('/v1/workspaces'),
      await tenant.put('/v1/workspaces/mine-too', {}),
      await tenant.put(workspace.path, {}),
      await tenant.delete(workspace.path),
      await tenant.post(`${workspace.path}/tokens`, { name: 'more' }),
      await tenant.get(`${workspace.path}/tokens`),
    ];
    expect(answers.map((answer) => answer.status)).toEqual([404, 404, 404, 404, 404, 404]);
    expect((await admin.get(workspace.path)).status).toBe(200);
  });

  test('is refused at once after it was deleted', async () => {
    const created = await admin.expect<{ id: string; token: string }>('POST', `${workspace.path}/tokens`, {
      body: { name: 'short' },
    });
    const client = new Client(server, created.token);
    expect((await client.get(workspace.path)).status).toBe(200);
    expect((await admin.delete(`${workspace.path}/tokens/${created.id}`)).status).toBe(204);
    expect((await client.get(workspace.path)).status).toBe(401);
  });
});

describe('what no route takes', () => {
  test('an unknown route is 404', async () => {
    const answer = await admin.get<Problem>('/v1/nothing');
    expect(answer.status).toBe(404);
    expect(answer.body).toMatchObject({ code: 'NOT_FOUND', type: 'urn:jobcell:error:NOT_FOUND' });
  });

  test('another method is 405 and says which ones there are', async () => {
    const answer = await admin.request<Problem>('PATCH', workspace.path);
    expect(answer.status).toBe(405);
    expect(answer.body.code).toBe('METHOD_NOT_ALLOWED');
    expect(answer.headers.get('allow')).toBe('PUT, GET, HEAD, DELETE');
  });

  test('another content type is 415 and says which ones there are', async () => {
    const answer = await admin.put<Problem>(`${workspace.path}/workflows/any`, 'mainJobFunction: x', {
      headers: { 'content-type': 'text/yaml' },
    });
    expect(answer.status).toBe(415);
    expect(answer.body.detail).toContain('application/json');
  });

  test('a packed body is 415 and says to send it unpacked', async () => {
    const response = await fetch(new URL(`${workspace.path}/workflows/any`, server.url), {
      method: 'PUT',
      headers: {
        authorization: `Bearer ${server.adminToken}`,
        'content-type': 'application/json',
        'content-encoding': 'gzip',
      },
      body: gzipSync('{"mainJobFunction":"x"}'),
    });
    expect(response.status).toBe(415);
    const { code, detail } = (await response.json()) as Problem;
    expect(code).toBe('UNSUPPORTED_MEDIA_TYPE');
    expect(detail).toBe(
      'Content encoding `gzip` is not supported: send the body as it is, without a Content-Encoding.',
    );
  });

  test.each([
    ['cut off', '{"name":'],
    ['no JSON at all', 'name=x'],
    ['not UTF-8', Buffer.from([0x22, 0xff, 0x22])],
  ])('a body that is not JSON is 400: %s', async (_name, body) => {
    const response = await fetch(new URL(`${workspace.path}/tokens`, server.url), {
      method: 'POST',
      headers: { authorization: `Bearer ${server.adminToken}`, 'content-type': 'application/json' },
      body,
    });
    expect(response.status).toBe(400);
    expect(((await response.json()) as Problem).code).toBe('BAD_REQUEST');
  });

  test('a head that is too large is answered, too', async () => {
    const answer = await admin.get<Problem>(`/v1/workspaces?cursor=${'x'.repeat(20_000)}`);
    expect(answer.status).toBe(400);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.body).toMatchObject({ code: 'BAD_REQUEST', detail: expect.stringContaining('too large') });
  });

  test('a body above the limit is 413 and says the limit', async () => {
    const answer = await admin.post<Problem>(`${workspace.path}/tokens`, { name: 'x'.repeat(2 * 1024 * 1024) });
    expect(answer.status).toBe(413);
    expect(answer.body.code).toBe('PAYLOAD_TOO_LARGE');
    expect(answer.body.detail).toContain('1 MiB');
  });

  test('an unknown field of the query or the body is named', async () => {
    const query = await admin.get<Problem>('/v1/workspaces?limt=3');
    expect(query.status).toBe(400);
    expect(query.body.errors).toEqual([{ path: 'limt', message: 'is not a known field (known: limit, cursor)' }]);
    const none = await admin.get<Problem>(`${workspace.path}?verbose=1`);
    expect(none.body.errors).toEqual([{ path: 'verbose', message: 'is not a known field' }]);
    const body = await admin.post<Problem>(`${workspace.path}/tokens`, { name: 'x', scope: 'all' });
    expect(body.status).toBe(400);
    expect(body.body.errors).toEqual([{ path: 'scope', message: 'is not a known field (known: name)' }]);
  });

  test.each(['%ff', '%00', '%00/tokens', '%00/workflows', 'a%00b/executions'])(
    'a path that no name can have is no failure of the server: %s',
    async (path) => {
      const answer = await admin.get<Problem>(`/v1/workspaces/${path}`);
      expect([400, 404]).toContain(answer.status);
      expect(answer.headers.get('content-type')).toMatch('application/problem+json');
    },
  );
});
