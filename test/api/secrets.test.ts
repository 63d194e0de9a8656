import { statSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import { Client, type Problem, Workspace } from '../support/client.ts';
import { createDatabase } from '../support/database.ts';
import { bundle } from '../support/fixtures.ts';
import { startServer, type TestServer } from '../support/server.ts';

const oldKey = 'an old key that only this test has (random)';
const newKey = 'another key that only this test has (random)';
/** Values that must not be found anywhere but in the scripts that read them. */
const password = 'correct horse battery staple';

let server: TestServer;
let client: Client;
let workspace: Workspace;
let databaseUrl: string;

beforeAll(async () => {
  databaseUrl = await createDatabase();
  server = await startServer({ databaseUrl, env: { JOBCELL_SECRET_KEY: oldKey, JOBCELL_LOG_LEVEL: 'trace' } });
  client = new Client(server);
  workspace = await client.createWorkspace();
  await setSecret(workspace, 'PASSWORD', password);
});

async function setSecret(where: Workspace, name: string, value: string, vault = 'main'): Promise<void> {
  await where.client.expect('PUT', `${where.path}/vaults/${vault}`);
  await where.client.expect('PUT', `${where.path}/vaults/${vault}/secrets/${name}`, { body: { value } });
}

interface Invoked {
  result: unknown;
  code?: string;
  detail?: string;
}

/** Runs the body of an asynchronous function as a function. */
async function run(where: Workspace, body: string): Promise<Invoked> {
  const script = `export const main = async () => { ${body} };`;
  return (await where.client.post<Invoked>(`${where.path}/functions/test-run`, { script })).body;
}

const read = (name: string, vault = 'main') =>
  `return tailor.secretmanager.getSecret(${JSON.stringify(vault)}, ${JSON.stringify(name)});`;

describe('over HTTP', () => {
  const secrets = () => `${workspace.path}/vaults/crud/secrets`;

  test('a vault and its secrets are written, listed and deleted; no answer has a value', async () => {
    const vault = await client.put(`${workspace.path}/vaults/crud`);
    expect(vault.body).toEqual({ name: 'crud', createdAt: expect.any(String) });
    expect((await client.put(`${workspace.path}/vaults/crud`)).body).toEqual(vault.body);
    expect((await client.get(`${workspace.path}/vaults/crud`)).body).toEqual(vault.body);
    const first = await client.put(`${secrets()}/API_KEY`, { value: password });
    expect(first).toMatchObject({ status: 200, body: { name: 'API_KEY' } });
    expect(Object.keys(first.body as object)).toEqual(['name', 'createdAt', 'updatedAt']);
    const second = await client.put<{ updatedAt: string }>(`${secrets()}/API_KEY`, { value: `${password}!` });
    expect((await client.get(`${secrets()}/API_KEY`)).body).toEqual(second.body);
    await client.expect('PUT', `${secrets()}/other.one`, { body: { value: 'x' } });
    const list = await client.get<{ items: { name: string }[] }>(secrets());
    expect(list.body.items.map(({ name }) => name)).toEqual(['other.one', 'API_KEY']);
    expect(JSON.stringify(list.body)).not.toContain(password);
    expect(await run(workspace, read('API_KEY', 'crud'))).toMatchObject({ result: `${password}!` });
    expect((await client.delete(`${secrets()}/API_KEY`)).status).toBe(204);
    expect((await client.delete(`${secrets()}/API_KEY`)).status).toBe(404);
    expect(await client.get<Problem>(`${secrets()}/API_KEY`)).toMatchObject({
      status: 404,
      body: { code: 'NOT_FOUND' },
    });
    expect((await run(workspace, read('API_KEY', 'crud'))).result).toBeNull();
    const vaults = await client.get<{ items: { name: string }[] }>(`${workspace.path}/vaults`);
    expect(vaults.body.items.map(({ name }) => name)).toContain('crud');
    expect((await client.delete(`${workspace.path}/vaults/crud`)).status).toBe(204);
    for (const path of [`${workspace.path}/vaults/crud`, secrets()]) {
      expect((await client.get(path)).status).toBe(404);
    }
    expect((await client.put(`${secrets()}/API_KEY`, { value: 'x' })).status).toBe(404);
  });

  test.each([
    ['an empty value', { value: '' }, 'value'],
    ['none', {}, 'value'],
    ['one that is too long', { value: 'é'.repeat(limits.secretBytes / 2 + 1) }, 'value'],
    ['half a surrogate pair', { value: '\ud800' }, 'value'],
  ])('%s is refused', async (_, body, field) => {
    const answer = await client.put<Problem>(`${workspace.path}/vaults/main/secrets/X`, body);
    expect(answer).toMatchObject({ status: 400, body: { code: 'BAD_REQUEST', errors: [{ path: field }] } });
  });

  test.each([
    `{"value":"${password}`,
    `{"value":${password}}`,
    `{"value":"x" ${password}}`,
    `{"value":"${password}","valeu":"${password}"}`,
    `{"value":["${password}"]}`,
  ])('a body that is wrong is not shown in the error: %s', async (body) => {
    const answer = await client.put<Problem>(`${workspace.path}/vaults/main/secrets/X`, body, {
      headers: { 'content-type': 'application/json' },
    });
    expect(answer).toMatchObject({ status: 400, body: { code: 'BAD_REQUEST' } });
    expect(JSON.stringify(answer.body)).not.toMatch(/horse|battery/);
  });

  test('a token of another workspace opens none of it', async () => {
    const other = await client.createWorkspace();
    const { token } = await client.expect<{ token: string }>('POST', `${other.path}/tokens`, { body: { name: 'x' } });
    const stranger = new Client(server, token);
    expect((await stranger.get(`${workspace.path}/vaults`)).status).toBe(404);
    expect((await stranger.put(`${workspace.path}/vaults/main/secrets/PASSWORD`, { value: 'x' })).status).toBe(404);
    expect((await run(new Workspace(stranger, other.name), read('PASSWORD'))).code).toBe('SCRIPT_ERROR');
  });
});

describe('a script', () => {
  test('reads one, or several of which missing ones are left out', async () => {
    await setSecret(workspace, '__proto__', 'p');
    await setSecret(workspace, 'UNICODE', 'ключ \u0000 🔑');
    const several = `const names = ['UNICODE', 'MISSING', '__proto__', 'a/b', 'UNICODE'];
      const found = await tailor.secretmanager.getSecrets('main', names);
      const one = await tailor.secretmanager.getSecret('main', 'MISSING');
      return { names: Object.keys(found), values: Object.values(found), one: one === undefined };`;
    expect((await run(workspace, several)).result).toEqual({
      names: ['UNICODE', '__proto__'],
      values: ['ключ \u0000 🔑', 'p'],
      one: true,
    });
    expect((await run(workspace, `return tailor.secretmanager.getSecrets('main', []);`)).result).toEqual({});
  });

  test('reads the largest one, and many at once', async () => {
    const large = 'é'.repeat(limits.secretBytes / 2);
    await setSecret(workspace, 'LARGE', large);
    const body = `const all = await Promise.all(Array.from({ length: 200 }, () => tailor.secretmanager.getSecret('main', 'LARGE')));
      return [all.length, all.every((value) => value === all[0]), all[0]];`;
    expect((await run(workspace, body)).result).toEqual([200, true, large]);
  });

  test('reads it in a job function, also when it is replayed', async () => {
    await workspace.uploadJobFunction(
      'reads',
      `export async function main() {
         const first = await tailor.secretmanager.getSecret('main', 'PASSWORD');
         tailor.workflow.execJobFunction('nothing');
         return first.length + (await tailor.secretmanager.getSecret('main', 'PASSWORD')).length;
       }`,
    );
    await workspace.uploadJobFunction('nothing', 'export const main = () => null;');
    await workspace.putWorkflow('reads', 'reads');
    const { result } = await workspace.run('reads', {}, { replay: 'always' });
    expect(result).toBe(2 * password.length);
  });

  test('as a bundler makes it, runs unchanged', async () => {
    await setSecret(workspace, 'API_KEY', 'k', 'vault');
    await client.expect('PUT', `${workspace.path}/functions/webhook`, { body: bundle('executor-webhook-fn') });
    const args = { body: { name: 'Ada' }, headers: { 'content-type': 'text/plain' }, method: 'POST', rawBody: '{}' };
    const answer = await client.post<Invoked>(`${workspace.path}/functions/webhook/invoke`, { args });
    expect(answer.body.result).toEqual({ hello: 'Ada', hasSecret: true, invoker: null });
  });

  test('a vault that is not there is an error that says so; so are arguments that are none', async () => {
    const calls = [
      `getSecret('nowhere', 'X')`,
      `getSecrets('a/b\\0', ['X'])`,
      `getSecret('main')`,
      `getSecret({ toJSON: () => 'main' }, 'X')`,
      `getSecrets('main', 'X')`,
      `getSecrets('main', [1])`,
      `getSecrets('main', Array(101).fill('X'))`,
    ];
    const body = `const answers = [];
      for (const call of [${calls.map((call) => `() => tailor.secretmanager.${call}`).join(', ')}]) {
        try { answers.push(await call()); } catch (error) { answers.push([error.name, error.code ?? null, error.message]); }
      }
      return answers;`;
    expect((await run(workspace, body)).result).toEqual([
      ['Error', 'VAULT_NOT_FOUND', 'There is no vault "nowhere" in this workspace. Create it, or correct the name.'],
      ['Error', 'VAULT_NOT_FOUND', expect.stringContaining('There is no vault')],
      ['TypeError', null, 'getSecret: its second argument must be a string.'],
      ['TypeError', null, 'getSecret: its first argument must be a string.'],
      ['TypeError', null, 'getSecrets: its second argument must be an array of names.'],
      ['TypeError', null, 'getSecrets: name 0 must be a string.'],
      ['TypeError', null, 'getSecrets: one call reads at most 100 secrets.'],
    ]);
  });
});

describe('at rest', () => {
  async function database<T extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<T[]> {
    const db = new pg.Client(databaseUrl);
    await db.connect();
    try {
      return (await db.query<T>(sql, values)).rows;
    } finally {
      await db.end();
    }
  }

  test('no row holds a value, and no line of the log', async () => {
    expect((await run(workspace, read('PASSWORD'))).result).toBe(password);
    const rows = await database<{ row: string; sealed: Buffer }>(
      'select to_jsonb(s)::text as row, sealed from jobcell.secrets s',
    );
    expect(rows.length).toBeGreaterThan(0);
    for (const { row, sealed } of rows) {
      expect(row).not.toMatch(/horse|battery/);
      expect(sealed.toString('latin1')).not.toMatch(/horse|battery/);
    }
    expect(server.logs()).not.toMatch(/horse|battery/);
    expect(server.logs()).not.toContain(oldKey);
    // The same value twice is stored as two different ones.
    await setSecret(workspace, 'SAME', password);
    const sealed = await database<{ sealed: Buffer }>(
      `select sealed from jobcell.secrets where name in ('SAME', 'PASSWORD')`,
    );
    expect(sealed[0]!.sealed.equals(sealed[1]!.sealed)).toBe(false);
  });

  test('a stored value that was changed, or put in the place of another, does not open', async () => {
    await setSecret(workspace, 'A', 'secret-of-a', 'swap');
    await setSecret(workspace, 'B', 'secret-of-b', 'swap');
    await database(`update jobcell.secrets t set sealed = (select sealed from jobcell.secrets where name = 'A' and vault = 'swap')
                    where name = 'B' and vault = 'swap'`);
    const swapped = await run(workspace, read('B', 'swap'));
    expect(swapped).toMatchObject({
      code: 'SCRIPT_ERROR',
      detail: expect.stringContaining('for a reason of the server'),
    });
    expect(JSON.stringify(swapped)).not.toContain('secret-of');
    expect(server.logs()).toContain('was changed since it was stored');
    expect((await run(workspace, read('A', 'swap'))).result).toBe('secret-of-a');
  });

  test('keys are replaced: a server with the new one before the old one encrypts everything again', async () => {
    const keys = async () =>
      // The damaged one of the test before stays as it is, and holds up nothing.
      (await database<{ key_id: string }>(`select distinct key_id from jobcell.secrets where vault <> 'swap'`)).map(
        (row) => row.key_id,
      );
    const [before] = await keys();
    const both = await startServer({ databaseUrl, env: { JOBCELL_SECRET_KEY: `${newKey}, ${oldKey}` } });
    const there = (at: TestServer) => new Workspace(new Client(at), workspace.name);
    expect((await run(there(both), read('PASSWORD'))).result).toBe(password);
    await expect.poll(keys, { timeout: 20_000 }).toEqual([expect.not.stringContaining(before!)]);
    await setSecret(there(both), 'AFTER', 'later');
    await both.stop();

    // The server that knows the old key alone says what it lacks, and tells its operator.
    const missing = await run(workspace, read('PASSWORD'));
    expect(missing).toMatchObject({ code: 'SCRIPT_ERROR', error: { code: 'NO_SECRET_KEY' } });
    expect(missing.detail).toContain('JOBCELL_SECRET_KEY');

    const next = await startServer({ databaseUrl, env: { JOBCELL_SECRET_KEY: newKey } });
    expect((await run(there(next), read('PASSWORD'))).result).toBe(password);
    expect((await run(there(next), read('AFTER'))).result).toBe('later');
    await next.stop();
  });
});

describe('the key', () => {
  test('without one, on a database elsewhere, a vault cannot be created, and the answer says what to do', async () => {
    const keyless = new Client(await startServer({ env: { JOBCELL_SECRET_KEY: undefined } }));
    const where = await keyless.createWorkspace();
    const answer = await keyless.put<Problem>(`${where.path}/vaults/main`);
    expect(answer).toMatchObject({ status: 503, body: { code: 'NO_SECRET_KEY' } });
    expect(answer.body.detail).toMatch(/JOBCELL_SECRET_KEY.*openssl rand/);
  });

  test('of an embedded database is generated, only for the server to read, and kept', async () => {
    const embedded = await startServer({ env: { DATABASE_URL: undefined, JOBCELL_SECRET_KEY: undefined } });
    const where = await new Client(embedded).createWorkspace();
    await setSecret(where, 'KEPT', 'kept');
    expect(statSync(join(embedded.dataDir, 'secret-key')).mode & 0o777).toBe(0o600);
    await embedded.restart();
    expect((await run(where, read('KEPT'))).result).toBe('kept');
  });
});
