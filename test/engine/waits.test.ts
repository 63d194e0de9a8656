import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { bundle, replayModes } from '../support/fixtures.ts';
import { startServer } from '../support/server.ts';

let workspace: Workspace;

beforeAll(async () => {
  workspace = await new Client(await startServer()).createWorkspace();
  await workspace.uploadJobFunctions({
    approval: bundle('approval'),
    echo: 'export const main = (args) => args;',
    approver: `export async function main({ id, approved, key = 'approval' }) {
      let seen;
      await tailor.workflow.resolve(id, key, async (payload) => { seen = payload; return { approved }; });
      return { seen };
    }`,
  });
  await workspace.putWorkflow('approval', 'approval');
  await workspace.putWorkflow('approver', 'approver');
});

const waiting = (id: string) => workspace.until(id, (execution) => execution.status === 'WAITING');

describe.each(replayModes)('wait and resolve, replay %s', (replay) => {
  test('a waiting execution shows key and payload, and goes on with what resolves it', async () => {
    const id = await workspace.start('approval', { orderId: 'o1' }, { replay });
    const parked = await waiting(id);
    expect(parked).toMatchObject({
      status: 'WAITING',
      stack: [],
      waitingFor: { reason: 'SIGNAL', key: 'approval', payload: { requestId: 'o1' } },
    });
    expect((await workspace.resolve(id, 'approval', { approved: true })).status).toBe(200);
    const ended = await workspace.finished(id);
    expect(ended).toMatchObject({ status: 'SUCCESS', result: { orderId: 'o1', status: 'approved' }, waitingFor: null });
  });

  test('a script resolves it and sees the payload', async () => {
    const id = await workspace.start('approval', { orderId: 'o2' }, { replay });
    await waiting(id);
    const approver = await workspace.run('approver', { id, approved: false }, { replay });
    expect(approver.status).toBe('SUCCESS');
    // A replay does not run the callback again, so what it left in variables is not there then.
    if (replay === 'auto') expect(approver.result).toEqual({ seen: { requestId: 'o2' } });
    expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: { status: 'rejected' } });
  });

  test('D10: of many resolvers at once exactly one wins', async () => {
    const id = await workspace.start('approval', { orderId: 'o3' }, { replay });
    await waiting(id);
    const scripts = Promise.all([1, 2, 3].map(() => workspace.run('approver', { id, approved: true }, { replay })));
    const people = await Promise.all([1, 2, 3].map(() => workspace.resolve(id, 'approval', { approved: true })));
    const won = people.filter((answer) => answer.status === 200).length;
    const lost = people.filter((answer) => answer.body.code === 'ALREADY_RESOLVED').length;
    const ended = await scripts;
    const scriptsWon = ended.filter((execution) => execution.status === 'SUCCESS').length;
    expect(won + scriptsWon).toBe(1);
    expect(won + lost).toBe(3);
    for (const { status, error } of ended)
      if (status !== 'SUCCESS') expect(error).toMatchObject({ code: 'ALREADY_RESOLVED' });
    expect((await workspace.finished(id)).status).toBe('SUCCESS');
  });

  test('D11: a key may be waited for again; each wait is its own record', async () => {
    const name = `twice-${replay}`;
    await workspace.uploadJobFunction(
      name,
      `export function main() {
        const first = tailor.workflow.wait('step', { n: 1 });
        const middle = tailor.workflow.execJobFunction('echo', { m: 1 });
        return [first, middle, tailor.workflow.wait('step', { n: 2 })];
      }`,
    );
    await workspace.putWorkflow(name, name);
    const id = await workspace.start(name, {}, { replay });
    await workspace.until(id, (execution) => (execution.waitingFor?.payload as { n?: number })?.n === 1);
    await workspace.resolve(id, 'step', 'one');
    await workspace.until(id, (execution) => (execution.waitingFor?.payload as { n?: number })?.n === 2);
    await workspace.resolve(id, 'step');
    const ended = await workspace.finished(id);
    expect(ended).toMatchObject({ status: 'SUCCESS', result: ['one', { m: 1 }, null] });
    expect(ended.jobExecutions[1]!.runs).toBe(1);
  });

  test('a wait in a nested body parks the whole run', async () => {
    const name = `nested-wait-${replay}`;
    await workspace.uploadJobFunctions({
      [name]: `export const main = () => { try { return tailor.workflow.execJobFunction('${name}-inner'); } catch { return 'swallowed'; } };`,
      [`${name}-inner`]: `export function main() { return tailor.workflow.wait('inner-key'); }`,
    });
    await workspace.putWorkflow(name, name);
    const id = await workspace.start(name, {}, { replay });
    const parked = await waiting(id);
    expect(parked.waitingFor).toMatchObject({ key: 'inner-key', payload: {} });
    await workspace.resolve(id, 'inner-key', [1, 2]);
    expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: [1, 2] });
  });
});

test('what does not wait is NOT_WAITING, what was resolved is ALREADY_RESOLVED', async () => {
  const id = await workspace.start('approval', { orderId: 'o4' });
  await waiting(id);
  expect(await workspace.resolve(id, 'other-key')).toMatchObject({ status: 404, body: { code: 'NOT_WAITING' } });
  await workspace.resolve(id, 'approval', { approved: true });
  expect(await workspace.resolve(id, 'approval')).toMatchObject({ status: 409, body: { code: 'ALREADY_RESOLVED' } });
  expect(await workspace.resolve(id, 'No Key')).toMatchObject({ status: 400, body: { errors: [{ path: 'key' }] } });
});

test('a wait with a bad key is an error at the call', async () => {
  await workspace.uploadJobFunction('bad-key', `export const main = () => tailor.workflow.wait('Bad Key');`);
  await workspace.putWorkflow('bad-key', 'bad-key');
  expect(await workspace.run('bad-key')).toMatchObject({ status: 'FAILED', error: { code: 'BAD_REQUEST' } });
});

test('D10: recorded calls inside a resolve callback are an error, and nothing is resolved', async () => {
  const id = await workspace.start('approval', { orderId: 'o5' });
  await waiting(id);
  await workspace.uploadJobFunction(
    'calls-inside',
    `export async function main({ id }) {
      await tailor.workflow.resolve(id, 'approval', () => tailor.workflow.execJobFunction('echo', {}));
    }`,
  );
  await workspace.putWorkflow('calls-inside', 'calls-inside');
  const failed = await workspace.run('calls-inside', { id });
  expect(failed.status).toBe('FAILED');
  expect((await workspace.getExecution(id)).status).toBe('WAITING');
  await workspace.cancel(id);
});
