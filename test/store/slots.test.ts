import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { uuidv7 } from 'uuidv7';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { cancelExecution } from '../../src/store/cancel.ts';
import { type ClaimedExecution, claimExecutions, confirmStopped } from '../../src/store/claims.ts';
import { openPool, type Pool } from '../../src/store/database.ts';
import { finishExecution, insertExecution } from '../../src/store/executions.ts';
import { giveBack } from '../../src/store/holdings.ts';
import { migrate } from '../../src/store/migrate.ts';
import { putPolicy } from '../../src/store/policies.ts';
import { livePools, recountPools, whyBlocked } from '../../src/store/pools.ts';
import { removeIdlePools } from '../../src/store/retention.ts';
import { expireLease, registerServer, takeOverExpired } from '../../src/store/servers.ts';
import { suspendExecution } from '../../src/store/slots.ts';
import { commitEnds, commitStarts, type StepStart, stepKey } from '../../src/store/steps.ts';
import { putWorkspace } from '../../src/store/workspaces.ts';
import { createDatabase } from '../support/database.ts';
import { poolMismatches } from '../support/pools.ts';

/** The statements themselves, without servers: what their order has to be to bring a rule to its edge is decided here. */

let pool: Pool;
let databaseUrl: string;
let workspace: { id: string; name: string };
let server: string;

beforeAll(async () => {
  databaseUrl = await createDatabase();
  pool = openPool(databaseUrl, { max: 8, onError: () => {} });
  await migrate(pool, pino({ level: 'silent' }));
});
beforeEach(async () => {
  workspace = await putWorkspace(pool, `space-${randomBytes(5).toString('hex')}`);
  server = uuidv7();
  await registerServer(pool, server, 600_000);
  await workflow('flow', 20);
});
afterEach(async () => {
  expect(await poolMismatches(databaseUrl)).toEqual([]);
  await pool.query('delete from executions');
  await pool.query('update pools set used = 0, awaited = false, earmark = null');
});
afterAll(() => pool.end());

/** A workflow without a look at what it names; its cap may be one that cannot be declared. */
async function workflow(name: string, cap: number): Promise<void> {
  await pool.query('insert into workflows (workspace_id, name, main_job_function) values ($1, $2, $2)', [
    workspace.id,
    name,
  ]);
  await pool.query(`insert into pools (workspace_id, pool, cap) values ($1, 'workflow:' || $2, $3)`, [
    workspace.id,
    name,
    cap,
  ]);
}
const setCap = (name: string, cap: number) =>
  pool.query('update pools set cap = $3 where workspace_id = $1 and pool = $2', [workspace.id, name, cap]);
const policy = (name: string, cap: number | null, matchType: 'exact' | 'prefix' = 'exact') =>
  putPolicy(pool, workspace, name, {
    key: undefined,
    matchType,
    concurrencyPolicy: cap === null ? null : { maxConcurrentExecutions: cap },
  });

async function insert(name = 'flow'): Promise<string> {
  const id = uuidv7();
  await insertExecution(pool, {
    id,
    workspaceId: workspace.id,
    workflow: name,
    args: '{}',
    invoker: null,
    depth: 0,
    parent: null,
    replay: 'auto',
    seed: randomBytes(32),
    idempotencyKey: null,
  });
  return id;
}

/** Claims until there is nothing more to claim. */
async function claimAll(limit = 100, tick = false): Promise<ClaimedExecution[]> {
  const all: ClaimedExecution[] = [];
  for (let first = true; ; first = false) {
    const { claimed, again } = await claimExecutions(pool, server, limit, tick && first);
    all.push(...claimed);
    if (!again) return all;
  }
}

/** An execution that runs. */
async function running(name = 'flow'): Promise<ClaimedExecution> {
  const id = await insert(name);
  const [claimed] = await claimAll();
  expect(claimed).toMatchObject({ executionId: id });
  return claimed!;
}

interface Frame {
  path: string;
  keys?: string[];
  run?: number;
}
const stackOf = ({ path, keys = [] }: Frame) => ({ frames: path.split('/').length, keys });

const startEntry = (claim: ClaimedExecution, frame: Frame): StepStart => ({
  workspaceId: claim.workspaceId,
  executionId: claim.executionId,
  fence: claim.fence,
  stack: stackOf(frame),
  path: frame.path,
  parentPath: frame.path.split('/').slice(0, -1).join('/'),
  position: 0,
  id: uuidv7(),
  name: 'job',
  args: '{}',
  executionPolicyKey: frame.keys?.at(-1) ?? null,
  functionVersion: 1,
  memoryLimitBytes: 1,
  run: frame.run ?? 1,
  recordedRun: 1,
  clock: null,
  logs: [],
});

async function start(claim: ClaimedExecution, frame: Frame): Promise<string | undefined> {
  return (await commitStarts(pool, [startEntry(claim, frame)])).get(stepKey(claim.executionId, frame.path));
}

const end = (claim: ClaimedExecution, { path, run = 1, keys = [] }: Frame) =>
  commitEnds(pool, [
    {
      ...claim,
      path,
      run,
      status: 'SUCCESS',
      result: '1',
      error: null,
      usage: null,
      failingPosition: null,
      stack: { frames: path.split('/').length - 1, keys },
      logs: [],
    },
  ]);

const finish = (claim: ClaimedExecution) =>
  finishExecution(pool, { ...claim, status: 'SUCCESS', result: '1', error: null, main: null, logs: [] });

const suspend = (claim: ClaimedExecution, frame: Frame) => suspendExecution(pool, claim, stackOf(frame));

const inUse = async (name: string) =>
  (await livePools(pool, workspace.id)).find((one) => one.pool === name)?.inUse ?? 0;
const statusOf = async (id: string) =>
  (await pool.query('select status, blocked_on as "blockedOn", holder from executions where id = $1', [id])).rows[0];

describe('the edges of the caps', () => {
  test('50 under a key whose policy sets no cap, where its own cap does not replace that', async () => {
    await setCap('executions', 1_000);
    await setCap('workspace', 1_000);
    await setCap('workflow:flow', 1_000);
    await policy('no-cap', null);
    await policy('high-cap', 60);
    await Promise.all(Array.from({ length: 61 }, () => insert()));
    const claims = await claimAll();
    expect(claims).toHaveLength(61);
    const outcomes = async (key: string) => {
      const path = `main/${key}`;
      const started = await commitStarts(
        pool,
        claims.map((claim) => startEntry(claim, { path, keys: [key] })),
      );
      const result = Map.groupBy(claims, (claim) => started.get(stepKey(claim.executionId, path)));
      await commitEnds(
        pool,
        (result.get('started') ?? []).map((claim) => ({
          ...claim,
          path,
          run: 1,
          status: 'SUCCESS',
          result: '1',
          error: null,
          usage: null,
          failingPosition: null,
          stack: { frames: 1, keys: [] },
          logs: [],
        })),
      );
      return [result.get('started')!, result.get('blocked')!];
    };
    const [started, blocked] = await outcomes('no-cap');
    expect([started!.length, blocked!.length]).toEqual([50, 11]);
    // In one group the oldest go first (D20).
    expect(started!.at(-1)!.executionId < blocked![0]!.executionId).toBe(true);
    const [more, one] = await outcomes('high-cap');
    expect([more!.length, one!.length]).toEqual([60, 1]);
    expect(await inUse('no-cap')).toBe(0);
  });

  test('100 dispatches, and not one more, in groups that do not fit as a whole', async () => {
    await setCap('workflow:flow', 50);
    await Promise.all(Array.from({ length: 50 }, () => insert()));
    const claims = await claimAll();
    const frames = ['main/0', 'main/0/0'];
    const outcomes: (string | undefined)[] = [];
    for (const path of frames) {
      const started = await commitStarts(
        pool,
        claims.map((claim) => startEntry(claim, { path })),
      );
      outcomes.push(...claims.map((claim) => started.get(stepKey(claim.executionId, path))));
    }
    expect(outcomes.filter((outcome) => outcome === 'started')).toHaveLength(50);
    expect(outcomes.filter((outcome) => outcome === 'blocked')).toHaveLength(50);
    expect(await inUse('workspace')).toBe(100);
  });
});

describe('what is sent twice (D3)', () => {
  test('a start takes its slots once, and late it takes nothing from what runs by then', async () => {
    await policy('key-a', 1);
    await policy('key-b', 1);
    const claim = await running();
    const parent = { path: 'main/0', keys: ['key-a'] };
    expect(await start(claim, parent)).toBe('started');
    expect(await start(claim, parent)).toBe('started');
    expect([await inUse('key-a'), await inUse('workspace')]).toEqual([1, 2]);
    expect(await start(claim, { path: 'main/0/0', keys: ['key-a', 'key-b'] })).toBe('started');
    // Its first sending was on its way all the time.
    expect(await start(claim, parent)).toBe('started');
    expect([await inUse('key-a'), await inUse('key-b'), await inUse('workspace')]).toEqual([1, 1, 3]);
    const child = { path: 'main/0/0', keys: ['key-a'] };
    await end(claim, child);
    await end(claim, parent);
    expect(await start(claim, { path: 'main/1', keys: ['key-b'] })).toBe('started');
    await end(claim, child);
    expect([await inUse('key-a'), await inUse('key-b'), await inUse('workspace')]).toEqual([0, 1, 2]);
    // One that comes after its end starts nothing.
    expect(await start(claim, parent)).toBeUndefined();
    await finish(claim);
    await finish(claim);
    expect(await inUse('workspace')).toBe(0);
  });

  test('a suspension whose answer was lost is answered again, and not to whoever has lost the claim', async () => {
    await policy('key-a', 1);
    const holder = await running();
    await start(holder, { path: 'main/0', keys: ['key-a'] });
    const claim = await running();
    const call = { path: 'main/0', keys: ['key-a'] };
    expect(await start(claim, call)).toBe('blocked');
    expect(await suspend(claim, call)).toBe('suspended');
    expect(await suspend(claim, call)).toBe('suspended');
    await end(holder, { path: 'main/0' });
    const [again] = await claimAll();
    expect(again).toMatchObject({ executionId: claim.executionId, fence: 2 });
    expect(await suspend(claim, call)).toBeNull();
    expect(await inUse('key-a')).toBe(1);
  });
});

describe('a suspended stack (D18)', () => {
  test('goes on with all it needs at once, keeps it for its replay, and gives back what that does not use', async () => {
    await policy('key-a', 1);
    await policy('key-b', 1);
    const holder = await running();
    await start(holder, { path: 'main/0', keys: ['key-b'] });
    const claim = await running();
    await start(claim, { path: 'main/0', keys: ['key-a'] });
    const call = { path: 'main/0/0', keys: ['key-a', 'key-b'] };
    expect(await start(claim, call)).toBe('blocked');
    expect(await suspend(claim, call)).toBe('suspended');
    expect([await inUse('key-a'), await inUse('workspace')]).toEqual([0, 2]);
    const third = await running();
    await start(third, { path: 'main/0', keys: ['key-a'] });
    await end(holder, { path: 'main/0' });
    expect(await claimAll()).toEqual([]);
    await end(third, { path: 'main/0' });
    const [again] = await claimAll();
    expect(again).toMatchObject({ executionId: claim.executionId });
    expect([await inUse('key-a'), await inUse('key-b'), await inUse('workspace')]).toEqual([1, 1, 5]);
    // The replay: its bodies begin again, on what is reserved.
    expect(await start(again!, { path: 'main', run: 2 })).toBe('started');
    expect(await start(again!, { path: 'main/0', keys: ['key-a'], run: 2 })).toBe('started');
    expect([await inUse('key-a'), await inUse('key-b'), await inUse('workspace')]).toEqual([1, 1, 5]);
    // It makes another call than the one that was blocked.
    expect(await start(again!, { path: 'main/0/0', keys: ['key-a'] })).toBe('started');
    expect([await inUse('key-a'), await inUse('key-b'), await inUse('workspace')]).toEqual([1, 0, 5]);
  });

  test('takes its slot after all when that came free while its run was dropped', async () => {
    await policy('key-a', 1);
    const holder = await running();
    await start(holder, { path: 'main/0', keys: ['key-a'] });
    const claim = await running();
    const call = { path: 'main/0', keys: ['key-a'] };
    expect(await start(claim, call)).toBe('blocked');
    await end(holder, { path: 'main/0' });
    expect(await suspend(claim, call)).toBe('taken');
    expect(await inUse('key-a')).toBe(1);
    expect(await start(claim, call)).toBe('started');
  });

  test.each(['a takeover', 'a stop', 'a cancel'])('what it holds is free after %s', async (what) => {
    await policy('key-a', 1);
    const claim = await running();
    await start(claim, { path: 'main' });
    await start(claim, { path: 'main/0', keys: ['key-a'] });
    const waiter = await running();
    const call = { path: 'main/0', keys: ['key-a'] };
    expect(await start(waiter, call)).toBe('blocked');
    expect(await suspend(waiter, call)).toBe('suspended');
    if (what === 'a takeover') {
      await expireLease(pool, server);
      await takeOverExpired(pool);
      server = uuidv7();
      await registerServer(pool, server, 600_000);
    } else if (what === 'a stop') {
      await giveBack(pool, server, null);
    } else {
      await cancelExecution(pool, workspace.id, claim.executionId);
      // D29: not before its run is gone.
      expect(await inUse('key-a')).toBe(1);
      expect(await claimAll()).toEqual([]);
      await confirmStopped(pool, claim, server);
      await confirmStopped(pool, claim, server);
    }
    // Late news of the old claim change nothing.
    expect(await start(claim, { path: 'main/0/0', keys: ['key-a'] })).toBeUndefined();
    const claims = await claimAll();
    // The older one goes first, with the whole stack it had.
    expect(claims.map(({ executionId }) => executionId)).toEqual([
      what === 'a cancel' ? waiter.executionId : claim.executionId,
    ]);
    expect([await inUse('key-a'), await inUse('workspace')]).toEqual([1, 2]);
  });
});

describe('order (D20)', () => {
  test('one that runs does not overtake an older one that waits for the same slot and could have it', async () => {
    await policy('key-a', 1);
    const older = await running();
    const younger = await running();
    const call = { path: 'main/0', keys: ['key-a'] };
    expect(await start(younger, call)).toBe('started');
    expect(await start(older, call)).toBe('blocked');
    expect(await suspend(older, call)).toBe('suspended');
    await end(younger, { path: 'main/0' });
    const next = { path: 'main/1', keys: ['key-a'] };
    expect(await start(younger, next)).toBe('blocked');
    expect(await suspend(younger, next)).toBe('suspended');
    expect((await claimAll()).map(({ executionId }) => executionId)).toEqual([older.executionId]);
    expect(await statusOf(younger.executionId)).toMatchObject({ status: 'PENDING_RESUME', blockedOn: 'key:key-a' });
  });

  test('an older one that runs goes on with the slot, and a waiter that lacks another one holds nobody up', async () => {
    await policy('key-a', 1);
    await policy('key-b', 1);
    const older = await running();
    const younger = await running();
    const call = { path: 'main/0', keys: ['key-a'] };
    expect(await start(older, call)).toBe('started');
    expect(await start(younger, call)).toBe('blocked');
    expect(await suspend(younger, call)).toBe('suspended');
    await end(older, { path: 'main/0' });
    expect(await start(older, { path: 'main/1', keys: ['key-a'] })).toBe('started');
    // Younger ones that fit elsewhere go.
    const third = await running();
    expect(await start(third, { path: 'main/0', keys: ['key-b'] })).toBe('started');
  });

  test.each([
    ['for 60 s', `update executions set blocked_since = now() - interval '61 s' where id = $1`],
    ['100 times', 'update executions set passed = 99 where id = $1'],
  ])('one that was passed over %s has what comes free in its pools kept for it', async (_what, age) => {
    for (const key of ['key-a', 'key-b']) await policy(key, 1);
    const [first, second] = [await running(), await running()];
    const waiter = await running();
    await start(first!, { path: 'main/0', keys: ['key-a'] });
    await start(second!, { path: 'main/0', keys: ['key-b'] });
    await start(waiter, { path: 'main/0', keys: ['key-a'] });
    const need = { path: 'main/0/0', keys: ['key-a', 'key-b'] };
    expect(await suspend(waiter, need)).toBe('suspended');
    await pool.query(age, [waiter.executionId]);
    // It is tried as soon as key-a has room, or by a tick.
    if (age.includes('passed')) await end(first!, { path: 'main/0' });
    expect(await claimAll(100, true)).toEqual([]);
    if (!age.includes('passed')) await end(first!, { path: 'main/0' });
    // A newcomer finds key-a free, and kept.
    const newcomer = await running();
    const call = { path: 'main/0', keys: ['key-a'] };
    expect(await start(newcomer, call)).toBe('blocked');
    expect(await suspend(newcomer, call)).toBe('suspended');
    expect(await whyBlocked(pool, workspace.id, newcomer.executionId)).toMatchObject({
      pool: 'key-a',
      cap: 1,
      inUse: 0,
    });
    expect(await claimAll()).toEqual([]);
    await end(second!, { path: 'main/0' });
    expect((await claimAll()).map(({ executionId }) => executionId)).toEqual([waiter.executionId]);
    const { rows } = await pool.query('select 1 from pools where earmark is not null');
    expect(rows).toEqual([]);
  });

  test('slots that were kept for one that is gone are free again after a while', async () => {
    for (const key of ['key-a', 'key-b']) await policy(key, 1);
    const holder = await running();
    await start(holder, { path: 'main/0', keys: ['key-b'] });
    const waiter = await running();
    await start(waiter, { path: 'main/0', keys: ['key-a'] });
    expect(await suspend(waiter, { path: 'main/0/0', keys: ['key-a', 'key-b'] })).toBe('suspended');
    await pool.query('update executions set passed = 99 where id = $1', [waiter.executionId]);
    await claimAll(100, true);
    await pool.query('update executions set passed = 100 where id = $1', [waiter.executionId]);
    await claimAll(100, true);
    await cancelExecution(pool, workspace.id, waiter.executionId);
    const newcomer = await running();
    const call = { path: 'main/0', keys: ['key-a'] };
    expect(await start(newcomer, call)).toBe('blocked');
    await pool.query(`update pools set earmark_until = now() - interval '1 s' where earmark is not null`);
    expect(await start(newcomer, call)).toBe('started');
  });

  test('10,000 PENDING executions of a full workspace are queued in bulk, and block no other workspace', {
    timeout: 240_000,
  }, async () => {
    await setCap('workflow:flow', 1);
    await pool.query(
      `insert into executions (workspace_id, id, workflow, main_job_function, status, args, revision, seed)
       select $1, gen_random_uuid(), 'flow', 'flow', 'PENDING', '{}', 0, '' from generate_series(1, 10000)`,
      [workspace.id],
    );
    const full = workspace;
    workspace = await putWorkspace(pool, `space-${randomBytes(5).toString('hex')}`);
    await workflow('other', 20);
    const other = await insert('other');
    let calls = 0;
    const claimed: string[] = [];
    for (let again = true; again; calls++) {
      const answer = await claimExecutions(pool, server, 32);
      claimed.push(...answer.claimed.map(({ executionId }) => executionId));
      again = answer.again;
    }
    expect(claimed).toHaveLength(2);
    expect(claimed).toContain(other);
    expect(calls).toBeLessThan(40);
    const { rows } = await pool.query(
      `select blocked_on as "blockedOn", count(*)::int from executions where workspace_id = $1 and status = 'PENDING' group by 1`,
      [full.id],
    );
    expect(rows).toEqual([{ blockedOn: 'workflow:flow', count: 9_999 }]);
  });
});

test('pools of keys that nobody uses are removed, and made anew by whoever comes', async () => {
  await removeIdlePools(pool, 1_000);
  await policy('key', 1, 'prefix');
  const claim = await running();
  await start(claim, { path: 'main/0', keys: ['key-a'] });
  await end(claim, { path: 'main/0' });
  await start(claim, { path: 'main/1', keys: ['key-b'] });
  expect(await removeIdlePools(pool, 100)).toBe(1);
  expect(await inUse('key-b')).toBe(1);
  await end(claim, { path: 'main/1' });
  expect(await start(claim, { path: 'main/2', keys: ['key-a'] })).toBe('started');
  const other = await running();
  expect(await start(other, { path: 'main/0', keys: ['key-a'] })).toBe('blocked');
});

test('D21: random starts, ends, suspensions and claims on many connections leave every counter right', async () => {
  const keys = ['key-a', 'key-b', 'key-c'];
  for (const key of keys) await policy(key, 2);
  await setCap('workspace', 12);
  await setCap('workflow:flow', 6);
  const wanted = 60;
  await Promise.all(Array.from({ length: wanted }, () => insert()));
  let finished = 0;
  const some = (count: number) => Math.floor(Math.random() * count);

  /** As a run goes: some steps, each perhaps with one below it; a blocked one suspends. */
  async function drive(claim: ClaimedExecution): Promise<void> {
    const run = claim.fence;
    const main = { path: 'main', run };
    expect(await start(claim, main)).toBe('started');
    for (let step = 0; step < 4; step++) {
      const key = keys[(step + Number(claim.executionId.at(-1)!.charCodeAt(0))) % keys.length]!;
      const path = `main/${step}`;
      const { rows } = await pool.query(
        `select runs, status from journal where execution_id = $1 and path = any($2) order by path`,
        [claim.executionId, [path, `${path}/0`]],
      );
      if (rows[0]?.status === 'SUCCESS') continue;
      const parent = { path, keys: [key], run: (rows[0]?.runs ?? 0) + 1 };
      const child = { path: `${path}/0`, keys: [key, keys[step % keys.length]!], run: 1 };
      for (const frame of rows[1]?.status === 'SUCCESS' ? [parent] : [parent, child]) {
        if ((await start(claim, { ...frame, keys: [...new Set(frame.keys)] })) === 'started') continue;
        const outcome = await suspend(claim, { ...frame, keys: [...new Set(frame.keys)] });
        if (outcome === 'taken') await giveBack(pool, server, [claim.executionId]);
        return;
      }
      if (rows[1]?.status !== 'SUCCESS') await end(claim, { ...child, keys: [key] });
      if (some(10) === 0) return giveBack(pool, server, [claim.executionId]);
      await end(claim, parent);
    }
    await finish(claim);
    finished++;
  }

  const worker = async () => {
    while (finished < wanted) {
      const { claimed } = await claimExecutions(pool, server, 1 + some(3), some(2) === 0);
      await Promise.all(claimed.map(drive));
      expect(await poolMismatches(databaseUrl)).toEqual([]);
      const { rows } = await pool.query('select pool from pools where used > cap');
      expect(rows).toEqual([]);
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  expect(await livePools(pool, workspace.id)).toMatchObject([{ inUse: 0 }, { inUse: 0 }]);
});

test('what lacks nothing waits for a sandbox process, or for the confirmation that its last run is gone (D29)', async () => {
  const id = await insert();
  const free = { pool: null, cap: null, inUse: null, holders: [], position: null, stopping: false };
  expect(await whyBlocked(pool, workspace.id, id)).toMatchObject({ ...free, kind: null });
  const [claim] = await claimAll();
  expect(await whyBlocked(pool, workspace.id, id)).toBeNull();
  await cancelExecution(pool, workspace.id, id);
  await pool.query(`update executions set status = 'PENDING_RESUME' where id = $1`, [id]);
  expect(await whyBlocked(pool, workspace.id, id)).toMatchObject({ ...free, kind: null, stopping: true });
  expect(await claimAll()).toEqual([]);
  await confirmStopped(pool, claim!, server);
  expect(await claimAll()).toMatchObject([{ executionId: id, fence: 3 }]);
});

test('a counter that is wrong, as a server of an older release would leave it, is set right', async () => {
  const claim = await running();
  expect(await recountPools(pool)).toEqual([]);
  await pool.query(`update pools set used = used + 2 where workspace_id = $1 and pool = 'executions'`, [workspace.id]);
  expect(await recountPools(pool)).toEqual([{ pool: 'executions', used: 3, held: 1 }]);
  expect(await recountPools(pool)).toEqual([]);
  await finish(claim);
});
