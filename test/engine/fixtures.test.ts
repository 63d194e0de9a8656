import { beforeAll, describe, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { bundle, replayModes } from '../support/fixtures.ts';
import { startServer } from '../support/server.ts';

let workspace: Workspace;

beforeAll(async () => {
  workspace = await new Client(await startServer()).createWorkspace();
  const jobs = [
    'add-tax',
    'fetch-price',
    'process-order',
    'swallow-suspension',
    'bad-nondeterministic',
    'styles-sync-main',
    'styles-export-default',
    'styles-globalthis-main',
    'approval',
    'executor-webhook-fn',
    'resolver-start-order',
  ];
  for (const job of jobs) {
    await workspace.uploadJobFunction(job, bundle(job));
    await workspace.putWorkflow(job, job);
  }
  await workspace.capKey('premium', 5);
  await workspace.capKey('tenant-api', 3, 'prefix');
  await workspace.putMachineUser('my-auth', 'bot');
  await workspace.uploadJobFunction('notify', 'export function main(args) { return { notified: args.orderId }; }');
  await workspace.putWorkflow('notify-workflow', 'notify');
  await workspace.putWorkflow('order-processing', 'process-order');
});

describe.each(replayModes)('the fixture bundles, replay %s', (replay) => {
  test('process-order totals 220 over fetch-price, fetch-price and add-tax, and starts one workflow', async () => {
    const order = { orderId: 'o1', skus: ['a', 'b'], tenant: 'acme' };
    const execution = await workspace.run('process-order', order, { replay });
    expect(execution).toMatchObject({ status: 'SUCCESS', error: null, stack: [] });
    const result = execution.result as { notificationId: string };
    expect(result).toEqual({ orderId: 'o1', total: 220, notificationId: expect.any(String), stage: 'dev', by: null });

    const steps = execution.jobExecutions.map(({ path, status, executionPolicyKey }) => [
      path,
      status,
      executionPolicyKey,
    ]);
    expect(steps).toEqual([
      ['process-order', 'SUCCESS', null],
      ['process-order/0:fetch-price', 'SUCCESS', 'tenant-api.acme'],
      ['process-order/1:fetch-price', 'SUCCESS', 'tenant-api.acme'],
      ['process-order/2:add-tax', 'SUCCESS', 'premium'],
    ]);

    const started = await workspace.finished(result.notificationId);
    expect(started).toMatchObject({
      workflow: 'notify-workflow',
      status: 'SUCCESS',
      result: { notified: 'o1' },
      depth: 1,
      parent: { executionId: execution.id },
    });
  });

  test('styles-sync-main uses the value on the next line', async () => {
    const execution = await workspace.run('styles-sync-main', {}, { replay });
    expect(execution).toMatchObject({ status: 'SUCCESS', result: { a: { total: 11 } } });
  });

  test('swallow-suspension: a catch around the call neither swallows nor answers a replay', async () => {
    const execution = await workspace.run('swallow-suspension', {}, { replay });
    expect(execution).toMatchObject({ status: 'SUCCESS', result: { total: 110 } });
  });

  test.each(['styles-export-default', 'styles-globalthis-main'])('%s greets', async (style) => {
    const execution = await workspace.run(style, { name: 'world' }, { replay });
    expect(execution).toMatchObject({ status: 'SUCCESS', result: { hello: 'world' } });
  });

  test('resolver-start-order validates by TailorErrors', async () => {
    const execution = await workspace.run('resolver-start-order', { input: {} }, { replay });
    expect(execution.status).toBe('FAILED');
    expect(execution.error).toMatchObject({ name: 'TailorErrors', kind: 'USER_RUNTIME', code: 'SCRIPT_ERROR' });
    const errors = [{ message: 'Expected a string: received undefined', path: ['orderId'] }];
    expect(execution.error!.message).toBe(`TailorErrors: ${JSON.stringify({ errors })}`);
  });

  test('resolver-start-order starts the order', async () => {
    const input = { orderId: 'o2', skus: ['a'] };
    const execution = await workspace.run('resolver-start-order', { input }, { replay });
    expect(execution).toMatchObject({ status: 'SUCCESS', result: { by: null, invokerType: null } });
    const { executionId } = execution.result as { executionId: string };
    expect(await workspace.finished(executionId)).toMatchObject({ status: 'SUCCESS', result: { total: 110 } });
  });
});

test('bad-nondeterministic fails with ARGUMENT_MISMATCH as soon as it is replayed', async () => {
  const execution = await workspace.run('bad-nondeterministic', {}, { replay: 'always' });
  expect(execution).toMatchObject({ status: 'FAILED', error: { code: 'ARGUMENT_MISMATCH', kind: 'USER_RUNTIME' } });
  expect(execution.error!.message).toMatch(
    /position 0.*recorded execJobFunction\("add-tax", .*replayed execJobFunction/s,
  );
  // D8: what is recorded stays as it was.
  expect(execution.jobExecutions.map(({ name, status }) => [name, status])).toEqual([
    ['bad-nondeterministic', 'SUSPEND'],
    ['add-tax', 'SUCCESS'],
  ]);
});

test('bad-nondeterministic succeeds when nothing makes it replay', async () => {
  const execution = await workspace.run('bad-nondeterministic', {}, { replay: 'auto' });
  expect(execution).toMatchObject({ status: 'SUCCESS', result: 1 });
});
