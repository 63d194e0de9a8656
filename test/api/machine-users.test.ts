import { beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import { Client, type Execution, type Problem, type Workspace } from '../support/client.ts';
import { replayModes } from '../support/fixtures.ts';
import { startServer } from '../support/server.ts';

let client: Client;
let workspace: Workspace;
let workspaceId: string;

const whoAmI = 'export const main = () => tailor.context.getInvoker();';
const choice = (machineUserName: string, namespace = 'my-auth') => ({ namespace, machineUserName });

beforeAll(async () => {
  client = new Client(await startServer());
  workspace = await client.createWorkspace();
  workspaceId = (await client.expect<{ id: string }>('GET', workspace.path)).id;
  await workspace.uploadJobFunctions({ 'who-am-i': whoAmI });
  await workspace.putWorkflow('who-am-i', 'who-am-i');
  await client.expect('PUT', `${workspace.path}/functions/who-am-i`, { body: whoAmI });
});

interface MachineUser {
  id: string;
  attributes: string[];
  attributeMap: Record<string, unknown>;
}

const path = (name: string, namespace = 'my-auth') => `${workspace.path}/machine-users/${namespace}/${name}`;
const put = (name: string, body: unknown = {}, namespace?: string) =>
  client.expect<MachineUser>('PUT', path(name, namespace), { body });
const asInvoker = ({ id, attributes, attributeMap }: MachineUser) => ({
  id,
  type: 'machine_user',
  workspaceId,
  attributes,
  attributeMap,
});

describe('machine users', () => {
  test('are created, replaced with their id kept, read, listed by namespace and deleted', async () => {
    const first = await put('crud', { attributes: ['a'], attributeMap: { role: 'x', '\u0000': '\ud800' } });
    expect(first).toMatchObject({
      namespace: 'my-auth',
      name: 'crud',
      attributeMap: { role: 'x', '\u0000': '\ud800' },
    });
    const second = await put('crud', { attributeMap: { role: 'y' } });
    expect(second).toMatchObject({ id: first.id, attributes: [], attributeMap: { role: 'y' } });
    await put('crud', {}, 'other');
    expect((await client.get(path('crud'))).body).toEqual(second);
    const list = async (query = '') =>
      (
        await client.expect<{ items: { namespace: string; name: string }[] }>(
          'GET',
          `${workspace.path}/machine-users${query}`,
        )
      ).items
        .filter(({ name }) => name === 'crud')
        .map(({ namespace }) => namespace);
    expect(await list()).toEqual(['other', 'my-auth']);
    expect(await list('?namespace=my-auth')).toEqual(['my-auth']);
    expect((await client.delete(path('crud'))).status).toBe(204);
    expect(await client.delete<Problem>(path('crud'))).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } });
    expect((await client.get(path('crud', 'other'))).status).toBe(200);
  });

  test.each([
    ['a name outside the grammar', '.hidden', {}, 'name'],
    ['a name that is too long', 'n'.repeat(129), {}, 'name'],
    ['attributes that are no list', 'bad', { attributes: 'x' }, 'attributes'],
    ['an unknown field', 'bad', { role: 'x' }, 'role'],
    ['attributes that are too large', 'bad', { attributeMap: { x: 'y'.repeat(limits.invokerBytes) } }, 'attributeMap'],
  ])('%s is refused', async (_, name, body, field) => {
    const answer = await client.put<Problem>(path(name), body);
    expect(answer).toMatchObject({ status: 400, body: { code: 'BAD_REQUEST', errors: [{ path: field }] } });
  });

  test('belong to their workspace', async () => {
    await put('mine');
    const other = await client.createWorkspace();
    await other.uploadJobFunction('who-am-i', whoAmI);
    await other.putWorkflow('who-am-i', 'who-am-i');
    const answer = await client.post<Problem>(`${other.path}/workflows/who-am-i/start`, { invoker: choice('mine') });
    expect(answer).toMatchObject({ status: 400, body: { errors: [{ path: 'invoker.machineUserName' }] } });
  });
});

describe('the invoker of a request', () => {
  test('is a machine user with the attributes of that moment, in a workflow, a function and a test run', async () => {
    const bot = await put('bot', { attributes: ['admin'], attributeMap: { level: 3 } });
    const invoker = choice('bot');
    const execution = await workspace.run('who-am-i', {}, { invoker });
    expect(execution.result).toEqual(asInvoker(bot));
    await put('bot', { attributes: ['less'] });
    expect((await workspace.getExecution(execution.id)).result).toEqual(asInvoker(bot));
    const now = asInvoker({ ...bot, attributes: ['less'], attributeMap: {} });
    const invoked = await client.post(`${workspace.path}/functions/who-am-i/invoke`, { invoker });
    expect(invoked.body).toMatchObject({ result: now });
    const tested = await client.post(`${workspace.path}/functions/test-run`, { script: whoAmI, invoker });
    expect(tested.body).toMatchObject({ result: now });
  });

  test('is null without one', async () => {
    expect((await workspace.run('who-am-i')).result).toBeNull();
    expect((await workspace.run('who-am-i', {}, { invoker: null })).result).toBeNull();
  });

  test.each([
    ['no such machine user', choice('nobody'), 'invoker.machineUserName'],
    ['no such namespace', choice('bot', 'nowhere'), 'invoker.machineUserName'],
    ['a choice without a name', { namespace: 'my-auth' }, 'invoker.machineUserName'],
    ['a person without an id', { type: 'user' }, 'invoker.id'],
    ['a name that is a number', { namespace: 'my-auth', machineUserName: 1 }, 'invoker.machineUserName'],
  ])('%s is refused, and nothing starts', async (_, invoker, field) => {
    for (const route of ['workflows/who-am-i/start', 'functions/who-am-i/invoke']) {
      const answer = await client.post<Problem>(`${workspace.path}/${route}`, { invoker });
      expect(answer).toMatchObject({ status: 400, body: { code: 'BAD_REQUEST', errors: [{ path: field }] } });
    }
  });

  test('counts for an Idempotency-Key, as a value', async () => {
    const headers = { 'idempotency-key': 'as-whom' };
    const start = <T = { executionId: string }>(invoker: unknown) =>
      client.post<T>(`${workspace.path}/workflows/who-am-i/start`, { invoker }, { headers });
    const person = { id: 'u1', type: 'user', attributes: [], attributeMap: { a: 1, b: { c: 2, d: 3 } } };
    const first = await start(person);
    const again = await start({ attributeMap: { b: { d: 3, c: 2 }, a: 1 }, type: 'user', id: 'u1' });
    expect(again).toMatchObject({ status: 202, body: first.body });
    for (const other of [null, { ...person, id: 'u2' }, { ...person, attributeMap: { a: 2 } }, choice('mine')]) {
      const answer = await start<Problem>(other);
      expect(answer.body).toMatchObject({ status: 409, code: 'IDEMPOTENCY_MISMATCH' });
      expect(answer.body.detail).toContain('other values of `invoker`');
    }
  });
});

describe.each(replayModes)('authInvoker of startWorkflow, replay %s', (replay) => {
  const starter = `export const main = async ({ options }) =>
    tailor.workflow.startWorkflow('who-am-i', {}, options);`;

  async function startedBy(options: unknown, invoker: unknown): Promise<Execution> {
    await workspace.uploadJobFunction('starter', starter);
    await workspace.putWorkflow('starter', 'starter');
    const execution = await workspace.run('starter', { options }, { invoker, replay });
    expect(execution.error).toBeNull();
    return workspace.finished(execution.result as string);
  }

  test('makes the new execution run as that machine user; without it, as the starting one', async () => {
    const bot = await put(`auth-${replay}`, { attributes: ['x'] });
    const person = { id: 'u1', type: 'user' };
    const chosen = await startedBy({ authInvoker: choice(`auth-${replay}`) }, person);
    expect(chosen.result).toEqual(asInvoker(bot));
    expect((await startedBy(undefined, person)).result).toMatchObject(person);
    expect((await startedBy({ authInvoker: null }, null)).result).toBeNull();
  });

  test('an unknown machine user is an error at the call, which a catch may handle, and is recorded', async () => {
    await workspace.uploadJobFunction(
      'guesses',
      `export async function main() {
         const codes = [];
         for (const authInvoker of [
           { namespace: 'my-auth', machineUserName: 'nobody' },
           { namespace: 'a/b\\0', machineUserName: '\\ud800' },
         ]) {
           try { await tailor.workflow.startWorkflow('who-am-i', {}, { authInvoker }); } catch (e) { codes.push(e.code, e.message); }
         }
         try { await tailor.workflow.startWorkflow('who-am-i', {}, { authInvoker: {} }); } catch (e) { codes.push(e.name, e.message); }
         return codes;
       }`,
    );
    await workspace.putWorkflow('guesses', 'guesses');
    const { result } = await workspace.run('guesses', {}, { replay });
    expect(result).toEqual([
      'MACHINE_USER_NOT_FOUND',
      'startWorkflow failed: this workspace has no machine user "nobody" in the namespace "my-auth". Create it, or correct options.authInvoker.',
      'MACHINE_USER_NOT_FOUND',
      expect.stringContaining('no machine user'),
      'TypeError',
      'startWorkflow: options.authInvoker.namespace must be a string.',
    ]);
  });
});

test('authInvoker works from a function, too', async () => {
  const bot = await put('from-function');
  const script = `export const main = async () => {
    const ids = [await tailor.workflow.startWorkflow('who-am-i', {}, { authInvoker: { namespace: 'my-auth', machineUserName: 'from-function' } })];
    try { await tailor.workflow.startWorkflow('who-am-i', {}, { authInvoker: { namespace: 'my-auth', machineUserName: 'nobody' } }); }
    catch (error) { ids.push(error.code); }
    return ids;
  };`;
  const answer = await client.post<{ result: [string, string] }>(`${workspace.path}/functions/test-run`, { script });
  const [id, code] = answer.body.result;
  expect(code).toBe('MACHINE_USER_NOT_FOUND');
  expect((await workspace.finished(id)).result).toEqual(asInvoker(bot));
});
