import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Client, type Workspace } from '../support/client.ts';
import { bundle, replayModes } from '../support/fixtures.ts';
import { type Gate, standAt, startGate } from '../support/gate.ts';
import { startServer, type TestServer } from '../support/server.ts';

/** Long enough for one more to come in, if any could. */
const settleMs = 400;

let server: TestServer;
let workspace: Workspace;
let gate: Gate;

/** Stands at the gate under `name`. */
const leaf = `export async function main({ url, name }) { ${standAt('url', 'name')}; return name; }`;
/** Calls `calls`, one inside the other: [{ job, key }]. */
const nest = `
  export function main({ calls: [call, ...calls], ...rest }) {
    if (!call) return 'nothing';
    const options = call.key ? { executionPolicyKey: call.key } : {};
    return tailor.workflow.execJobFunction(call.job, { calls, ...rest }, options);
  }`;
/** Calls `job` under each of the keys, one after the other. */
const line = `
  export function main({ job, keys, ...rest }) {
    return keys.map((executionPolicyKey) => tailor.workflow.execJobFunction(job, rest, { executionPolicyKey }));
  }`;

beforeAll(async () => {
  server = await startServer({ env: { JOBCELL_CELLS: '80', JOBCELL_FETCH_ALLOW: '127.0.0.1' } });
});

async function prepare(): Promise<void> {
  gate = await startGate();
  workspace = await new Client(server).createWorkspace();
  await workspace.uploadJobFunctions({ leaf, nest, line });
  // The cap of a workflow is 20: several of them.
  for (const name of ['nest', 'nest-2', 'nest-3', 'line']) await workspace.putWorkflow(name, name.split('-')[0]!);
}
afterEach(() => gate?.openForGood());

interface Call {
  job: string;
  key?: string;
}
const keyed = (...keys: string[]): Call[] =>
  keys.map((key, index) => ({ job: index === keys.length - 1 ? 'leaf' : 'nest', key }));

/** Starts one that calls these, one inside the other, with the last at the gate under this name. */
const startNest = (name: string, calls: Call[], workflow = 'nest') =>
  workspace.start(workflow, { url: gate.url, name, calls });

const suspended = (id: string) =>
  workspace.until(id, ({ status, waitingFor }) => status === 'PENDING_RESUME' && waitingFor!.reason === 'POOL');
const succeeds = async (...ids: string[]) => {
  for (const id of ids) expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', error: null });
};

test('E5, D22: a dispatch beyond the cap of an exact key suspends its execution, which resumes when a slot is free', async () => {
  await prepare();
  await workspace.capKey('premium', 2);
  const first = await startNest('first', keyed('premium'));
  const second = await startNest('second', keyed('premium'));
  await gate.until(2);
  const third = await startNest('third', keyed('premium'));
  const fourth = await startNest('fourth', keyed('premium'));
  expect(await suspended(third)).toMatchObject({
    stack: [],
    jobExecutions: [{ path: 'nest', status: 'SUSPEND', runs: 1 }],
    waitingFor: {
      reason: 'POOL',
      need: [
        { pool: 'premium', slots: 1 },
        { pool: 'workflow:nest', slots: 1 },
        { pool: 'executions', slots: 1 },
        { pool: 'workspace', slots: 2 },
      ],
      pool: 'premium',
      policy: 'premium',
      cap: 2,
      inUse: 2,
      holders: [first, second],
      position: 1,
    },
  });
  expect((await suspended(fourth)).waitingFor).toMatchObject({ pool: 'premium', position: 2 });
  // E5: it holds nothing.
  expect(
    (await workspace.pools()).map(({ pool, policy, cap, inUse, queued }) => [pool, policy, cap, inUse, queued]),
  ).toEqual([
    ['executions', null, 50, 2, 0],
    ['workspace', null, 100, 4, 0],
    ['premium', 'premium', 2, 2, 2],
    ['workflow:nest', null, 20, 2, 0],
  ]);
  gate.open('first');
  await succeeds(first);
  await gate.until(2);
  expect(gate.inside()).toEqual(['second', 'third']);
  gate.openForGood();
  await succeeds(second, third, fourth);
  const ended = await workspace.getExecution(third);
  expect(ended.jobExecutions.map(({ path, runs }) => [path, runs])).toEqual([
    ['nest', 2],
    ['nest/0:leaf', 1],
  ]);
  expect(ended).toMatchObject({ attempt: 1, retryCount: 0 });
});

test('a dispatch without a key is no business of a policy', async () => {
  await prepare();
  await workspace.capKey('premium', 1);
  const ids = [await startNest('keyed', keyed('premium'))];
  for (let n = 0; n < 3; n++) ids.push(await startNest('free', [{ job: 'leaf' }]));
  await gate.until(4);
  gate.openForGood();
  await succeeds(...ids);
});

test('D16: a prefix policy gives every key a pool of its own, and covers the prefix itself', async () => {
  await prepare();
  await workspace.putPolicy('tenant-api', { matchType: 'prefix', concurrencyPolicy: { maxConcurrentExecutions: 1 } });
  const keys = ['tenant-api.acme', 'tenant-api.beta', 'tenant-api', 'tenant-api:other'];
  const ids: string[] = [];
  for (const key of keys) ids.push(await startNest(key, keyed(key)));
  await gate.until(4);
  // One full tenant beside a free one.
  const second = await startNest('acme again', keyed('tenant-api.acme'));
  expect((await suspended(second)).waitingFor).toMatchObject({ pool: 'tenant-api.acme', policy: 'tenant-api', cap: 1 });
  for (let n = 0; n < 3; n++) {
    gate.open('tenant-api.beta');
    await gate.until(3);
    ids.push(await startNest('tenant-api.beta', keyed('tenant-api.beta')));
    await gate.until(4);
  }
  expect((await workspace.getExecution(second)).status).toBe('PENDING_RESUME');
  gate.open('tenant-api.acme');
  await gate.until(3);
  await gate.until(4);
  expect(gate.inside()).toContain('acme again');
  gate.openForGood();
  await succeeds(...ids, second);
});

test('every policy that covers a key counts, the tightest blocks: the sample of workflow.md', async () => {
  await prepare();
  const cap = (maxConcurrentExecutions: number) => ({ concurrencyPolicy: { maxConcurrentExecutions } });
  await workspace.putPolicy('one', { name: 'one', matchType: 'prefix', ...cap(100) });
  await workspace.putPolicy('one.two', { name: 'one.two', matchType: 'prefix', ...cap(10) });
  await workspace.putPolicy('one.two.three', { name: 'one.two.three', ...cap(3) });
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push(await startNest('three', keyed('one.two.three')));
  for (let n = 0; n < 11; n++) ids.push(await startNest('four', keyed('one.two.four')));
  await gate.until(13);
  await sleep(settleMs);
  expect(gate.inside().filter((name) => name === 'three')).toHaveLength(3);
  expect(gate.inside().filter((name) => name === 'four')).toHaveLength(10);
  const byPool = async () =>
    (await workspace.pools())
      .filter(({ policy }) => policy !== null)
      .map(({ pool, policy, cap, inUse, queued }) => [pool, policy, cap, inUse, queued]);
  // Those that found no room may still be on their way to the queue.
  await expect.poll(byPool, { timeout: 30_000 }).toEqual([
    ['one.two.four', 'one', 100, 10, 0],
    ['one.two.four', 'one.two', 10, 10, 1],
    ['one.two.three', 'one', 100, 3, 0],
    ['one.two.three', 'one.two', 10, 3, 0],
    ['one.two.three', 'one.two.three', 3, 3, 1],
  ]);
  gate.openForGood();
  await succeeds(...ids);
});

test('D17: a stack holds a slot of a key once, so parent and child on one key of cap 1 just work', async () => {
  await prepare();
  await workspace.capKey('single', 1);
  const first = await startNest('first', keyed('single', 'single', 'single'));
  await gate.until(1);
  const second = await startNest('second', keyed('single', 'single'));
  await suspended(second);
  expect((await workspace.pools()).find(({ pool }) => pool === 'single')).toMatchObject({ inUse: 1, holders: [first] });
  expect((await workspace.pools()).find(({ pool }) => pool === 'workspace')).toMatchObject({ inUse: 4 });
  gate.openForGood();
  await succeeds(first, second);
});

test('D18: parents that hold what others need neither deadlock nor resume for ever', async () => {
  await prepare();
  await workspace.capKey('parents', 3);
  await workspace.capKey('children', 1);
  await workspace.capKey('crossed', 1);
  const straight = keyed('parents', 'children');
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) ids.push(await startNest('straight', straight));
  // Each holds what the other wants next.
  ids.push(
    await startNest('crossed', keyed('children', 'crossed')),
    await startNest('crossed', keyed('crossed', 'children')),
  );
  for (let left = ids.length; left > 0; left -= gate.open()) await sleep(20);
  await succeeds(...ids);
  for (const id of ids) {
    // Suspended for its own turn, not again and again.
    for (const step of (await workspace.getExecution(id)).jobExecutions) expect(step.runs).toBeLessThanOrEqual(4);
  }
});

test('100 dispatches run in a workspace, exactly, main included; the next one suspends its execution', async () => {
  await prepare();
  const ids: string[] = [];
  const workflows = ['nest', 'nest-2', 'nest-3'];
  // Two bodies each: main and leaf.
  for (let n = 0; n < 48; n++) ids.push(await startNest('plain', [{ job: 'leaf' }], workflows[n % 3]));
  await gate.until(48);
  // Three bodies: 99 in all. Then a main alone: 100.
  const deep = await startNest('deep', [{ job: 'nest' }, { job: 'leaf' }]);
  await gate.until(49);
  await workspace.uploadJobFunction(
    'two-gates',
    `export async function main({ url }) {
       ${standAt('url', '"before"')};
       return tailor.workflow.execJobFunction('leaf', { url, name: 'after' });
     }`,
  );
  await workspace.putWorkflow('two-gates', 'two-gates');
  const last = await workspace.start('two-gates', { url: gate.url });
  await gate.until(50);
  const used = async () => (await workspace.pools()).find(({ pool }) => pool === 'workspace')!.inUse;
  expect(await used()).toBe(100);
  gate.open('before');
  expect((await suspended(last)).waitingFor).toMatchObject({
    reason: 'POOL',
    need: [
      { pool: 'workflow:two-gates', slots: 1 },
      { pool: 'executions', slots: 1 },
      { pool: 'workspace', slots: 2 },
    ],
    pool: 'workspace',
    policy: null,
    cap: 100,
    inUse: 99,
    position: 1,
  });
  expect(await used()).toBe(99);
  gate.open('plain', 1);
  // It is replayed: main stands there again, with the slot of its child reserved.
  await gate.until(49);
  expect(gate.inside()).toContain('before');
  expect(await used()).toBe(99);
  gate.openForGood();
  await succeeds(...ids, deep, last);
});

test('D20: a stream of newcomers does not keep a waiter from its three slots', async () => {
  await prepare();
  for (const key of ['k-1', 'k-2', 'k-3']) await workspace.capKey(key, 1);
  await workspace.uploadJobFunction(
    'blink',
    'export const main = () => new Promise((resolve) => setTimeout(resolve, 20));',
  );
  const ids: string[] = [];
  let streaming = true;
  const waiter = await workspace.start('nest', {
    calls: [...keyed('k-1', 'k-2', 'k-3').slice(0, 2), { job: 'blink', key: 'k-3' }],
  });
  const stream = async (key: string) => {
    while (streaming) {
      const started = await workspace.start('line', { job: 'blink', keys: [key, key, key] });
      ids.push(started);
      await sleep(10);
      if (ids.length % 20 === 0) await workspace.finished(started);
    }
  };
  const streams = ['k-1', 'k-2', 'k-3'].map(stream);
  await succeeds(waiter);
  streaming = false;
  await Promise.all(streams);
  await succeeds(...ids);
});

describe.each(replayModes)('the fixtures, replay %s', (replay) => {
  test('swallow-suspension on a saturated pool: suspended, its catch never ran', async () => {
    await prepare();
    await workspace.capKey('premium', 1);
    await workspace.uploadJobFunctions({
      'add-tax': bundle('add-tax'),
      'swallow-suspension': bundle('swallow-suspension').replace(
        '{ price: 100 }',
        '$&, { executionPolicyKey: "premium" }',
      ),
    });
    await workspace.putWorkflow('swallow-suspension', 'swallow-suspension');
    const holder = await startNest('holder', keyed('premium'));
    await gate.until(1);
    const id = await workspace.start('swallow-suspension', {}, { replay });
    await suspended(id);
    gate.openForGood();
    await succeeds(holder);
    expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: { total: 110 } });
  });

  test('a loop of dispatches on saturated keys ends with every result, one body of each', async () => {
    await prepare();
    await workspace.putPolicy('tenant-api', { matchType: 'prefix', concurrencyPolicy: { maxConcurrentExecutions: 1 } });
    await workspace.uploadJobFunction(
      'blink',
      'export const main = ({ n }) => new Promise((resolve) => setTimeout(resolve, 15, n));',
    );
    const keys = ['tenant-api.a', 'tenant-api.b', 'tenant-api.a', 'tenant-api.c'];
    const ids = await Promise.all(
      Array.from({ length: 8 }, (_, n) => workspace.start('line', { job: 'blink', n, keys }, { replay })),
    );
    for (const [n, id] of ids.entries()) {
      const { status, result, jobExecutions } = await workspace.finished(id);
      expect({ status, result }).toEqual({ status: 'SUCCESS', result: [n, n, n, n] });
      expect(jobExecutions.slice(1).map(({ runs }) => runs)).toEqual([1, 1, 1, 1]);
    }
  });
});

describe('declared caps that change while runs go on', () => {
  test('a lower cap ends nothing, a higher one lets waiters go at once', async () => {
    await prepare();
    await workspace.capKey('changing', 2);
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push(await startNest('one', keyed('changing')));
    await gate.until(2);
    await workspace.capKey('changing', 4);
    await gate.until(4);
    await workspace.capKey('changing', 1);
    await sleep(settleMs);
    expect(gate.inside()).toHaveLength(4);
    gate.open(undefined, 3);
    await gate.until(1);
    await sleep(settleMs);
    expect(gate.inside()).toHaveLength(1);
    await workspace.putPolicy('changing', {});
    await gate.until(3);
    gate.openForGood();
    await succeeds(...ids);
  });

  test('a policy that is deleted lets what runs go on; what waits is tried, and its call fails there', async () => {
    await prepare();
    await workspace.capKey('fleeting', 1);
    const holder = await startNest('holder', keyed('fleeting'));
    await gate.until(1);
    const waiter = await startNest('waiter', keyed('fleeting'));
    await suspended(waiter);
    await workspace.client.expect('DELETE', `${workspace.path}/execution-policies/fleeting`);
    expect(await workspace.finished(waiter)).toMatchObject({
      status: 'FAILED',
      error: { code: 'EXECUTION_POLICY_NOT_FOUND', kind: 'USER_NON_RUNTIME', at: 'nest' },
    });
    // Declared anew, it counts who runs already.
    await workspace.capKey('fleeting', 1);
    await workspace.client.expect('POST', `${workspace.path}/executions/${waiter}/resume`, { body: {} });
    const again = await workspace.until(waiter, ({ waitingFor }) => waitingFor?.pool === 'fleeting');
    expect(again.waitingFor).toMatchObject({ reason: 'POOL', holders: [holder], inUse: 1, cap: 1 });
    gate.openForGood();
    await succeeds(holder, waiter);
  });

  test('a call that was refused for its key is refused again when it is resumed, until a policy covers it', async () => {
    await prepare();
    const id = await startNest('refused', keyed('unheard-of'));
    const refused = { status: 'FAILED', error: { code: 'EXECUTION_POLICY_NOT_FOUND' } };
    expect(await workspace.finished(id)).toMatchObject(refused);
    const resume = () => workspace.client.expect('POST', `${workspace.path}/executions/${id}/resume`, { body: {} });
    await resume();
    expect(await workspace.finished(id)).toMatchObject(refused);
    await workspace.capKey('unheard-of', 1);
    await resume();
    await gate.until(1);
    gate.openForGood();
    await succeeds(id);
  });

  test('what is canceled while it waits or runs begins with main alone when it is resumed', async () => {
    await prepare();
    await workspace.capKey('narrow', 1);
    const holder = await startNest('holder', keyed('narrow'));
    await gate.until(1);
    const waiter = await startNest('waiter', keyed('narrow'));
    await suspended(waiter);
    // Its code no longer asks for the key, which is taken all the while.
    await workspace.uploadJobFunctions({ nest: `export const main = () => 'changed';` });
    const changed = async (id: string) => {
      await workspace.client.expect('POST', `${workspace.path}/executions/${id}/resume`, {
        body: { code: 'latest', from: 'nest' },
      });
      expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: 'changed' });
    };
    expect((await workspace.cancel(waiter)).status).toBe(202);
    await changed(waiter);
    const next = await workspace.start('line', { url: gate.url, name: 'next', job: 'leaf', keys: ['narrow'] });
    await suspended(next);
    expect((await workspace.cancel(holder)).status).toBe(202);
    await expect.poll(() => gate.inside(), { timeout: 30_000 }).toContain('next');
    await changed(holder);
    gate.openForGood();
    await succeeds(next);
    expect((await workspace.pools()).filter(({ inUse, queued }) => inUse > 0 || queued > 0)).toEqual([]);
  });

  test('a key that no policy covers is an error at the call, which a script may catch', async () => {
    await prepare();
    const unknown = await workspace.run('nest', { calls: [{ job: 'nest', key: 'nobody' }] });
    expect(unknown).toMatchObject({
      status: 'FAILED',
      error: {
        code: 'EXECUTION_POLICY_NOT_FOUND',
        message:
          'execJobFunction failed: no execution policy of this workspace covers the key "nobody". None is declared. Declare a policy for it, or correct the key.',
      },
    });
    await workspace.capKey('premium', 5);
    await workspace.capKey('tenant-api', 3, 'prefix');
    await workspace.uploadJobFunction(
      'catching',
      `export function main() {
        try { tailor.workflow.execJobFunction('nest', { calls: [] }, { executionPolicyKey: 'premium.x' }); }
        catch (error) { return { code: error.code, message: error.message }; }
      }`,
    );
    await workspace.putWorkflow('catching', 'catching');
    expect((await workspace.run('catching', {}, { replay: 'always' })).result).toEqual({
      code: 'EXECUTION_POLICY_NOT_FOUND',
      message: expect.stringContaining('Declared are "premium", "tenant-api*".'),
    });
  });
});
