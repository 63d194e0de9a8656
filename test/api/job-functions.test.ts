import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import { Client, type Problem, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let admin: Client;
let workspace: Workspace;

beforeAll(async () => {
  server = await startServer();
  admin = new Client(server);
  workspace = await admin.createWorkspace();
});

interface JobFunction {
  name: string;
  version: number;
  contentHash: string;
  size: number;
  createdAt: string;
}

const pathOf = (name: string) => `${workspace.path}/job-functions/${encodeURIComponent(name)}`;
const put = <T = JobFunction>(name: string, body: unknown, type?: string) =>
  admin.put<T>(pathOf(name), body, type === undefined ? {} : { headers: { 'content-type': type } });
const revision = async () => (await admin.expect<{ revision: number }>('GET', workspace.path)).revision;
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const script = (value: unknown) => `export const main = () => (${JSON.stringify(value)});`;

describe('upload', () => {
  test.each(['text/javascript', 'application/javascript', 'text/javascript; charset=utf-8'])('as %s', async (type) => {
    const text = script({ type, word: 'größe 😀' });
    const answer = await put('raw', text, type);
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ name: 'raw', contentHash: sha256(text), size: Buffer.byteLength(text) });
  });

  test('as JSON, with a source map as an object or as text', async () => {
    const text = script('json');
    const map = { version: 3, sources: ['a.ts'], names: [], mappings: 'AAAA' };
    const plain = await put('json', { script: text });
    expect(plain.body).toMatchObject({ version: 1, contentHash: sha256(text) });
    const mapped = await put('json', { script: text, sourceMap: map });
    expect(mapped.body).toMatchObject({ version: 2, contentHash: sha256(`${text}\0${JSON.stringify(map)}`) });
    expect((await put('json', { script: text, sourceMap: JSON.stringify(map) })).body).toEqual(mapped.body);
  });

  test('the same content is the same version, and raises no revision while it is current (D28)', async () => {
    const first = await put('same', script(1));
    const before = await revision();
    expect((await put('same', script(1))).body).toEqual(first.body);
    expect(await revision()).toBe(before);
    expect((await put('same', script(2))).body.version).toBe(2);
    expect((await put('same', script(1))).body).toEqual(first.body);
    expect(await revision()).toBe(before + 2);
  });

  test.each(['a', 'fetchData', 'order.v2', 'with space', 'größe', '😀'.repeat(128), '%41'])(
    'a name of the grammar: %s',
    async (name) => {
      const answer = await put(name, script(name));
      expect(answer.status).toBe(200);
      expect(answer.body.name).toBe(name);
      expect((await admin.get<JobFunction>(pathOf(name))).body).toEqual(answer.body);
    },
  );

  test.each(['a/b', 'x'.repeat(129), 'a\nb', 'a\u0000b', '\u0085'])('a name outside the grammar: %j', async (name) => {
    const before = await revision();
    const answer = await put<Problem>(name, script(1));
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.[0]?.path).toBe('name');
    expect(await revision()).toBe(before);
  });

  test('16 MiB are stored, more is 413 and says the limit', async () => {
    const main = 'export const main = () => 1;//';
    const fits = main + 'x'.repeat(limits.scriptBytes - main.length);
    expect((await put('large', fits)).body.size).toBe(limits.scriptBytes);
    const before = await revision();
    const seventeen = main + 'x'.repeat(17 * 1024 * 1024);
    for (const body of [`${fits}x`, seventeen, { script: seventeen }]) {
      const answer = await put<Problem>('too-large', body);
      expect(answer.status).toBe(413);
      expect(answer.body).toMatchObject({ code: 'PAYLOAD_TOO_LARGE', detail: expect.stringContaining('16 MiB') });
    }
    expect(await revision()).toBe(before);
    expect((await admin.get(pathOf('too-large'))).status).toBe(404);
  });

  const bad: [string, string, number, string][] = [
    ['a syntax error', 'export const main = () => {\n  return 1 +;\n};', 2, 'not stored'],
    ['a throw at the top level', 'export const main = () => 1;\n\nthrow new Error("at the top");', 3, 'at the top'],
  ];
  test.each(bad)('%s is INVALID_SCRIPT with its place', async (_name, text, line, words) => {
    const before = await revision();
    const answer = await put<Problem>('broken', text);
    expect(answer.status).toBe(422);
    expect(answer.body).toMatchObject({ code: 'INVALID_SCRIPT', line, column: expect.any(Number) });
    expect(answer.body.detail).toContain(words);
    expect(await revision()).toBe(before);
    expect((await admin.get(pathOf('broken'))).status).toBe(404);
  });

  test.each(['const main = () => 1;', '', 'export const other = 1;', 'export const main = 7;'])(
    'a script without a main function is INVALID_SCRIPT: %s',
    async (text) => {
      const answer = await put<Problem>('no-main', { script: text });
      expect(answer.status).toBe(422);
      expect(answer.body).toMatchObject({ code: 'INVALID_SCRIPT', detail: expect.stringContaining('main') });
      expect((await admin.get(pathOf('no-main'))).status).toBe(404);
    },
  );

  test.each([
    [{}, 'script'],
    [{ script: 7 }, 'script'],
    [{ script: script(1), sourceMap: 7 }, 'sourceMap'],
    [{ script: script(1), sourceMap: 'no map' }, 'sourceMap'],
    [{ script: '"\ud800"' }, 'script'],
    [{ script: script(1), name: 'x' }, 'name'],
  ])('a bad JSON form names the field: %j', async (body, path) => {
    const answer = await put<Problem>('form', body);
    expect(answer.status).toBe(400);
    expect(answer.body.errors?.map((error) => error.path)).toEqual([path]);
  });

  test('a script that is not UTF-8 is 400', async () => {
    const response = await fetch(new URL(pathOf('latin'), server.url), {
      method: 'PUT',
      headers: { authorization: `Bearer ${server.adminToken}`, 'content-type': 'text/javascript' },
      body: Buffer.from('export const main = () => "\xe9";', 'latin1'),
    });
    expect(response.status).toBe(400);
    expect(((await response.json()) as Problem).detail).toContain('UTF-8');
  });

  test('a body of another type, or none, is refused', async () => {
    expect((await put('typed', script(1), 'text/plain')).status).toBe(415);
    expect((await admin.put(pathOf('typed'))).status).toBe(400);
  });
});

describe('reading', () => {
  test('the current version, an old one, and their scripts', async () => {
    const one = (await put('read', script('one'))).body;
    const two = (await put('read', script('two'))).body;
    expect((await admin.get(pathOf('read'))).body).toEqual(two);
    expect((await admin.get(`${pathOf('read')}?version=1`)).body).toEqual(one);
    const text = await admin.get<string>(`${pathOf('read')}/script`);
    expect(text.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(text.body).toBe(script('two'));
    expect((await admin.get(`${pathOf('read')}/script?version=1`)).body).toBe(script('one'));
    for (const path of ['?version=3', '/script?version=3']) {
      const answer = await admin.get<Problem>(pathOf('read') + path);
      expect(answer.status).toBe(404);
      expect(answer.body.detail).toContain('version 3');
    }
    expect((await admin.get(`${pathOf('read')}?version=0`)).status).toBe(400);
  });

  test('the list has each name once, the newest upload first', async () => {
    const fresh = await admin.createWorkspace();
    for (const name of ['b', 'a', 'c', 'a']) await fresh.uploadJobFunction(name, script(name + Math.random()));
    const list = await admin.get<{ items: JobFunction[] }>(`${fresh.path}/job-functions`);
    expect(list.body.items.map(({ name, version }) => `${name}@${version}`)).toEqual(['a@2', 'c@1', 'b@1']);
  });
});

describe('delete', () => {
  test('hides the name; its versions stay for those who know them', async () => {
    await put('old', script(1));
    expect((await admin.delete(pathOf('old'))).status).toBe(204);
    expect((await admin.get(pathOf('old'))).status).toBe(404);
    expect((await admin.get(`${pathOf('old')}?version=1`)).status).toBe(200);
    expect((await admin.delete(pathOf('old'))).status).toBe(404);
  });

  test('is refused while a workflow names it as its main job function', async () => {
    await put('needed', script(1));
    await workspace.putWorkflow('needs-it', 'needed');
    const answer = await admin.delete<Problem>(pathOf('needed'));
    expect(answer.status).toBe(409);
    expect(answer.body).toMatchObject({ code: 'CONFLICT', detail: expect.stringContaining('`needs-it`') });
    expect((await admin.get(pathOf('needed'))).status).toBe(200);
    expect((await admin.delete(`${workspace.path}/workflows/needs-it`)).status).toBe(204);
    expect((await admin.delete(pathOf('needed'))).status).toBe(204);
  });
});
