import { beforeAll, expect, test } from 'vitest';
import { Client, type Problem, type Workspace } from '../support/client.ts';
import { startServer } from '../support/server.ts';

let client: Client;
let workspace: Workspace;

beforeAll(async () => {
  client = new Client(await startServer());
  workspace = await client.createWorkspace();
});

const put = (name: string, body: unknown) => client.put<Problem>(`${workspace.path}/execution-policies/${name}`, body);
const cap = (maxConcurrentExecutions: number) => ({ concurrencyPolicy: { maxConcurrentExecutions } });
const stamps = { createdAt: expect.any(String), updatedAt: expect.any(String) };

test('the sample declarations of workflow.md are stored as they stand there, and listed newest first', async () => {
  const samples = {
    premium: cap(5),
    'tenant-api': { name: 'tenant-api', matchType: 'prefix', ...cap(3) },
    one: { name: 'one', matchType: 'prefix', ...cap(100) },
    'one.two': { name: 'one.two', matchType: 'prefix', ...cap(10) },
    'one.two.three': { name: 'one.two.three', ...cap(3) },
  };
  for (const [name, body] of Object.entries(samples)) expect((await put(name, body)).status).toBe(200);
  const { body } = await client.get<{ items: unknown[] }>(`${workspace.path}/execution-policies`);
  expect(body.items).toEqual([
    { name: 'one.two.three', key: 'one.two.three', matchType: 'exact', ...cap(3), ...stamps },
    { name: 'one.two', key: 'one.two', matchType: 'prefix', ...cap(10), ...stamps },
    { name: 'one', key: 'one', matchType: 'prefix', ...cap(100), ...stamps },
    { name: 'tenant-api', key: 'tenant-api', matchType: 'prefix', ...cap(3), ...stamps },
    { name: 'premium', key: 'premium', matchType: 'exact', ...cap(5), ...stamps },
  ]);
  const page = await client.get<{ items: unknown[]; nextCursor: string }>(
    `${workspace.path}/execution-policies?limit=3`,
  );
  const rest = await client.get<{ items: unknown[] }>(
    `${workspace.path}/execution-policies?limit=3&cursor=${page.body.nextCursor}`,
  );
  expect([...page.body.items, ...rest.body.items]).toEqual(body.items);
});

test('a policy is read, changed and deleted; its key stays', async () => {
  const path = `${workspace.path}/execution-policies/billing-api`;
  expect((await put('billing-api', { key: 'billing:*', matchType: 'prefix' })).body).toEqual({
    name: 'billing-api',
    key: 'billing:',
    matchType: 'prefix',
    concurrencyPolicy: null,
    ...stamps,
  });
  // The key is the policy's already.
  expect((await put('billing-api', { matchType: 'prefix', ...cap(7) })).body).toMatchObject({
    key: 'billing:',
    ...cap(7),
  });
  const other = await put('billing-api', { key: 'invoices', ...cap(7) });
  expect(other).toMatchObject({
    status: 409,
    body: { code: 'CONFLICT', detail: expect.stringContaining('`billing:`') },
  });
  expect((await client.get(path)).body).toMatchObject({ key: 'billing:', matchType: 'prefix', ...cap(7) });
  expect((await client.delete(path)).status).toBe(204);
  expect((await client.delete(path)).status).toBe(404);
  expect(await client.get(path)).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } });
  expect((await put('billing-api', { key: 'invoices' })).body).toMatchObject({ key: 'invoices', matchType: 'exact' });
});

test.each([
  ['a cap of 0', 'some-policy', cap(0), 'concurrencyPolicy.maxConcurrentExecutions'],
  ['a cap above 1000', 'some-policy', cap(1001), 'concurrencyPolicy.maxConcurrentExecutions'],
  ['no cap in its policy', 'some-policy', { concurrencyPolicy: {} }, 'concurrencyPolicy.maxConcurrentExecutions'],
  ['a match type of another kind', 'some-policy', { matchType: 'glob' }, 'matchType'],
  ['a key outside its grammar', 'some-policy', { key: 'No Spaces' }, 'key'],
  ['a star without prefix', 'some-policy', { key: 'some*' }, 'key'],
  ['a star in the middle', 'some-policy', { key: 'so*me', matchType: 'prefix' }, 'key'],
  ['another name than the path', 'some-policy', { name: 'other-policy' }, 'name'],
  ['an unknown field', 'some-policy', { cap: 3 }, 'cap'],
  ['a name outside its grammar', 'Some_Policy', {}, 'name'],
])('%s is refused', async (_what, name, body, path) => {
  const answer = await put(name, body);
  expect(answer).toMatchObject({ status: 400, body: { code: 'BAD_REQUEST' } });
  expect(answer.body.errors!.map((error) => error.path)).toContain(path);
});

test('the pools of a workspace at rest are its own two', async () => {
  const fresh = await client.createWorkspace();
  expect(await fresh.pools()).toEqual([
    { pool: 'executions', policy: null, cap: 50, inUse: 0, holders: [], queued: 0 },
    { pool: 'workspace', policy: null, cap: 100, inUse: 0, holders: [], queued: 0 },
  ]);
});
