import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Client, type Problem } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let admin: Client;
let database: pg.Client;

beforeAll(async () => {
  server = await startServer();
  admin = new Client(server);
  database = new pg.Client(server.databaseUrl);
  await database.connect();
});
afterAll(() => database.end());

interface Workspace {
  id: string;
  name: string;
  revision: number;
  createdAt: string;
  updatedAt: string;
}

const uuidv7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('workspaces', () => {
  test('are created, read, updated and deleted', async () => {
    const created = await admin.put<Workspace>('/v1/workspaces/shop', {});
    expect(created.status).toBe(200);
    expect(created.body).toMatchObject({ name: 'shop', revision: 0 });
    expect(created.body.id).toMatch(uuidv7);
    expect(created.body.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    // A body is not needed; the same workspace stays.
    const again = await admin.put<Workspace>('/v1/workspaces/shop');
    expect(again.body).toMatchObject({ id: created.body.id, createdAt: created.body.createdAt });
    expect((await admin.get<Workspace>('/v1/workspaces/shop')).body).toEqual(again.body);
    expect((await admin.delete('/v1/workspaces/shop')).status).toBe(204);
    expect((await admin.get('/v1/workspaces/shop')).status).toBe(404);
    expect((await admin.delete('/v1/workspaces/shop')).status).toBe(404);
  });

  test.each(['ab', 'Shop', 'a_b', '-shop', 'shop-', 'x'.repeat(64)])('a name outside the grammar: %s', async (name) => {
    const answer = await admin.put<Problem>(`/v1/workspaces/${name}`, {});
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.[0]).toMatchObject({ path: 'workspace' });
    expect((await admin.get(`/v1/workspaces/${name}`)).status).toBe(404);
  });

  test('the list is newest first and pages', async () => {
    for (const name of ['list-a', 'list-b', 'list-c']) await admin.put(`/v1/workspaces/${name}`, {});
    const names: string[] = [];
    for (let cursor = ''; ; ) {
      const page = await admin.expect<{ items: Workspace[]; nextCursor: string | null }>(
        'GET',
        `/v1/workspaces?limit=2${cursor}`,
      );
      expect(page.items.length).toBeLessThanOrEqual(2);
      names.push(...page.items.map((item) => item.name));
      if (page.nextCursor === null) break;
      cursor = `&cursor=${page.nextCursor}`;
    }
    expect(names.filter((name) => name.startsWith('list-'))).toEqual(['list-c', 'list-b', 'list-a']);
    expect(new Set(names).size).toBe(names.length);
  });

  test.each([
    'nonsense',
    '',
    'WzFd',
    Buffer.from('["0"]').toString('base64url'),
    Buffer.from('[null]').toString('base64url'),
  ])('a cursor that is none is refused: %s', async (cursor) => {
    const answer = await admin.get<Problem>(`/v1/workspaces?cursor=${cursor}`);
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.[0]?.path).toBe('cursor');
  });

  test.each(['0', '201', '1.5', 'many'])('a limit outside of 1 to 200 is refused: %s', async (limit) => {
    const answer = await admin.get<Problem>(`/v1/workspaces?limit=${limit}`);
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.[0]?.path).toBe('limit');
  });

  test('one with an unfinished execution is not deleted; then everything in it goes', async () => {
    const workspace = await admin.createWorkspace('busy');
    await admin.post(`${workspace.path}/tokens`, { name: 'x' });
    await workspace.uploadJobFunction('main-job', 'export const main = () => 1');
    await workspace.putWorkflow('flow', 'main-job');
    const { rows } = await database.query(
      `insert into jobcell.executions (workspace_id, id, workflow, main_job_function, status, args, revision, seed)
       select id, gen_random_uuid(), 'flow', 'main-job', 'WAITING', '{}', 1, '' from jobcell.workspaces where name = 'busy'
       returning id`,
    );
    const refused = await admin.delete<Problem>(workspace.path);
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'CONFLICT', detail: expect.stringContaining('1 unfinished execution') });
    expect((await admin.delete<Problem>(`${workspace.path}/workflows/flow`)).status).toBe(409);
    await database.query(`update jobcell.executions set status = 'FAILED' where id = $1`, [rows[0].id]);
    expect((await admin.delete(workspace.path)).status).toBe(204);
    for (const table of ['executions', 'workflows', 'tokens', 'script_versions', 'script_revisions']) {
      const left = await database.query(
        `select from jobcell.${table} t where not exists (select from jobcell.workspaces w where w.id = t.workspace_id)`,
      );
      expect(left.rowCount).toBe(0);
    }
  });
});

describe('tokens', () => {
  test('are shown once, stored hashed, listed without the secret, deleted', async () => {
    const workspace = await admin.createWorkspace();
    const created = await admin.post<{ id: string; name: string; token: string }>(`${workspace.path}/tokens`, {
      name: 'ci server',
    });
    expect(created.status).toBe(201);
    expect(created.body.token).toMatch(/^jobcell_[\w-]{43}$/);
    const stored = await database.query('select t::text as row from jobcell.tokens t where id = $1', [created.body.id]);
    expect(stored.rows[0].row).not.toContain(created.body.token.slice(8));
    const list = await admin.get<{ items: object[] }>(`${workspace.path}/tokens`);
    expect(list.body.items).toEqual([{ id: created.body.id, name: 'ci server', createdAt: expect.any(String) }]);
    expect((await admin.delete(`${workspace.path}/tokens/${created.body.id}`)).status).toBe(204);
    expect((await admin.delete(`${workspace.path}/tokens/${created.body.id}`)).status).toBe(404);
    expect((await admin.delete(`${workspace.path}/tokens/none`)).status).toBe(404);
  });

  test.each([[undefined], [''], ['a\u0000b'], [7], ['x'.repeat(129)]])('a name must be text: %j', async (name) => {
    const workspace = await admin.createWorkspace();
    const answer = await admin.post<Problem>(`${workspace.path}/tokens`, { name });
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.[0]?.path).toBe('name');
    expect((await admin.get<{ items: object[] }>(`${workspace.path}/tokens`)).body.items).toEqual([]);
  });

  test('a token of another workspace is not deleted', async () => {
    const [one, two] = [await admin.createWorkspace(), await admin.createWorkspace()];
    const { id } = await admin.expect<{ id: string }>('POST', `${one.path}/tokens`, { body: { name: 'x' } });
    expect((await admin.delete(`${two.path}/tokens/${id}`)).status).toBe(404);
    expect((await admin.get<{ items: object[] }>(`${one.path}/tokens`)).body.items).toHaveLength(1);
  });
});
