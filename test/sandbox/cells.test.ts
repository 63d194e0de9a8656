import { existsSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import type { CellLease, Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, messages, resultOf, runIn, runOnce, startSandbox } from './harness.ts';

let sandbox: Sandbox;
afterEach(() => sandbox.stop());

const one = 'export const main = () => 1;';
const asleep = 'export const main = () => new Promise((r) => setTimeout(r, 60_000));';
const blocked = `export function main() {
  try { tailor.workflow.execJobFunction('x'); } catch { console.log('caught'); } finally { console.log('finally'); }
  console.log('went on');
}`;

/** Resolves when the body has made its first call, which is then never answered. */
function suspend(lease: CellLease) {
  const called = Promise.withResolvers<void>();
  const run = runIn(lease, blocked, {
    onCall: () => {
      called.resolve();
      return new Promise(() => {});
    },
  });
  return { run, called: called.promise };
}

const gone = (pid: number) => !existsSync(`/proc/${pid}`);

describe('a cell', () => {
  it('killed by somebody else is lost, for every body of its run and for no other run (D23)', async () => {
    sandbox = await startSandbox();
    const [first, second] = await Promise.all(['a', 'b'].map((workspaceId) => sandbox.acquire({ workspaceId })));
    const inner = Promise.withResolvers<void>();
    const outer = `export const main = () => tailor.workflow.execJobFunction('inner');`;
    const nestedEnds: string[] = [];
    const run = runIn(first as CellLease, outer, {
      onCall: async () => {
        const nested = runIn(first as CellLease, asleep);
        setTimeout(inner.resolve, 50);
        const { end } = await nested;
        nestedEnds.push(JSON.stringify(end));
        return new Promise(() => {});
      },
    });
    const other = runIn(
      second as CellLease,
      'export const main = () => new Promise((r) => setTimeout(() => r(2), 300));',
    );
    await inner.promise;
    process.kill((first as CellLease).pid, 'SIGKILL');
    expect((await run).end).toEqual({ type: 'gone', lost: true, logs: [] });
    expect(nestedEnds).toEqual(['{"type":"gone","lost":true,"logs":[]}']);
    expect(resultOf(await other)).toBe(2);
    await Promise.all([first?.release(), second?.release()]);
    expect(resultOf(await runOnce(sandbox, one))).toBe(1);
  });

  it('does not mind the signals that a terminal sends to a whole group (D23)', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const { run, called } = suspend(lease);
    await called;
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(lease.pid, signal);
    expect(resultOf(await runIn(lease, one))).toBe(1);
    await lease.drop();
    expect((await run).end).toEqual({ type: 'gone', lost: false, logs: [] });
    expect(resultOf(await runIn(lease, one))).toBe(1);
    await lease.release();
  });

  it('killed by a signal that V8 dies of is the failure of the deepest body', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const inner = Promise.withResolvers<void>();
    const nested = Promise.withResolvers<Awaited<ReturnType<typeof runIn>>>();
    const run = runIn(lease, `export const main = () => tailor.workflow.execJobFunction('inner');`, {
      onCall: async () => {
        setTimeout(inner.resolve, 50);
        nested.resolve(await runIn(lease, asleep));
        return new Promise(() => {});
      },
    });
    await inner.promise;
    process.kill(lease.pid, 'SIGTRAP');
    const failure = failureOf(await nested.promise);
    expect(failure).toMatchObject({ treeGone: true, failingPosition: null });
    expect(failure.error).toMatchObject({ code: 'CELL_CRASHED', kind: 'USER_NON_RUNTIME' });
    expect((await run).end).toEqual({ type: 'gone', lost: false, logs: [] });
    await lease.release();
  });

  it('that dies without a word leaves the usage that the server saw', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const busy = `export const main = () => { const kept = new Array(4_000_000).fill(1.5); for (;;) kept[0]++; };`;
    const run = runIn(lease, busy);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    process.kill(lease.pid, 'SIGTRAP');
    const { usage } = failureOf(await run);
    expect(usage.cpuMs).toBeGreaterThan(50);
    expect(usage.wallMs).toBeGreaterThan(1_000);
    expect(usage.peakMemoryBytes).toBeGreaterThan(16 * 1024 * 1024);
    expect(usage.memoryLimitBytes).toBe(256 * 1024 * 1024);
    await lease.release();
  });

  it('is dropped cleanly, without running anything more of the script, and used again (D22)', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const { run, called } = suspend(lease);
    await called;
    await lease.drop();
    const dropped = await run;
    expect(dropped.end).toEqual({ type: 'gone', lost: false, logs: [] });
    expect(messages(dropped.logs)).toEqual([]);
    // The same lease, the same process.
    expect(resultOf(await runIn(lease, one))).toBe(1);
    const { pid } = lease;
    await lease.release();
    const again = await sandbox.acquire({ workspaceId: 'a' });
    expect(again.pid).toBe(pid);
    await again.release();
    const other = await sandbox.acquire({ workspaceId: 'b' });
    expect(other.pid).not.toBe(pid);
    await other.release();
  });

  it('drops a tree of blocked bodies, and one that computes', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const deep = `export function main({ n }) {
      if (n === 5) for (;;);
      try { return tailor.workflow.execJobFunction('self', { n: n + 1 }); } catch { return 'caught'; }
    }`;
    const run = runIn(lease, deep, { args: { n: 1 }, jobs: { self: deep } });
    await new Promise((resolve) => setTimeout(resolve, 300));
    await lease.drop();
    expect((await run).end).toEqual({ type: 'gone', lost: false, logs: [] });
    await lease.release();
  });

  it('is thrown away after a body passed a limit', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    await runIn(lease, 'export function main() { for (;;); }', { limits: { cpuMs: 50 } });
    await lease.release();
    expect(gone(lease.pid)).toBe(true);
  });

  it('kills itself when its lease ends, whatever its server does (D4)', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const run = runIn(lease, asleep);
    sandbox.extendDeadline(60_000);
    sandbox.extendDeadline(200);
    expect((await run).end).toEqual({ type: 'gone', lost: true, logs: [] });
    expect(sandbox.free()).toBe(0);
    await expect(sandbox.acquire({ workspaceId: 'b', waitMs: 300 })).rejects.toMatchObject({ code: 'OVERLOADED' });
    sandbox.extendDeadline(60_000);
    await lease.release();
    expect(resultOf(await runOnce(sandbox, one))).toBe(1);
  });

  it('is not handed out again when its deadline has passed, even if it did not notice (D4)', async () => {
    sandbox = await startSandbox();
    const [kept, held] = await Promise.all(['a', 'b'].map((workspaceId) => sandbox.acquire({ workspaceId })));
    await kept!.release();
    // Processes that stand still cannot kill themselves in time.
    for (const { pid } of [kept!, held!]) process.kill(pid, 'SIGSTOP');
    sandbox.extendDeadline(1);
    await new Promise((resolve) => setTimeout(resolve, 20));
    sandbox.extendDeadline(60_000);
    const again = await sandbox.acquire({ workspaceId: 'a' });
    expect(again.pid).not.toBe(kept!.pid);
    expect(resultOf(await runIn(again, one))).toBe(1);
    process.kill(held!.pid, 'SIGCONT');
    await Promise.all([again.release(), held!.release()]);
    expect([gone(kept!.pid), gone(held!.pid)]).toEqual([true, true]);
  });

  it('goes on past a deadline that was pushed on', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    // Long enough for a busy machine: a cell that learns of a deadline after it has passed ends.
    sandbox.extendDeadline(2_000);
    const run = runIn(lease, 'export const main = () => new Promise((r) => setTimeout(() => r(3), 2_200));');
    sandbox.extendDeadline(60_000);
    expect(resultOf(await run)).toBe(3);
    await lease.release();
  });
});

describe('the pool', () => {
  it('grows to its size, then lets runs wait, and gives up after waitMs or by the signal', async () => {
    sandbox = await startSandbox({ cells: 2, prewarmed: 1 });
    expect(sandbox.free()).toBe(2);
    const [first, second] = await Promise.all(['a', 'b'].map((workspaceId) => sandbox.acquire({ workspaceId })));
    expect(sandbox.free()).toBe(0);
    await expect(sandbox.acquire({ workspaceId: 'c', waitMs: 50 })).rejects.toMatchObject({ code: 'OVERLOADED' });
    const abort = new AbortController();
    const aborted = sandbox.acquire({ workspaceId: 'c', signal: abort.signal });
    abort.abort(new Error('no longer wanted'));
    await expect(aborted).rejects.toThrow('no longer wanted');
    const freed = Promise.withResolvers<void>();
    sandbox.onFree(freed.resolve);
    const waiting = sandbox.acquire({ workspaceId: 'c' });
    await first?.release();
    const third = await waiting;
    await Promise.all([second?.release(), third.release()]);
    await freed.promise;
    expect(sandbox.free()).toBe(2);
  });

  it('lets new runs wait while the cells are over their memory budget', async () => {
    sandbox = await startSandbox({ cells: 3, prewarmed: 1, memoryMb: 250 });
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const hog = `export async function main() {
      const all = []; for (let i = 0; i < 220; i++) all.push(new Uint8Array(1 << 20).fill(1));
      await new Promise((r) => setTimeout(r, 3_000)); return all.length;
    }`;
    const run = runIn(lease, hog);
    await expect.poll(() => sandbox.free(), { timeout: 20_000 }).toBe(0);
    await expect(sandbox.acquire({ workspaceId: 'b', waitMs: 100 })).rejects.toMatchObject({ code: 'OVERLOADED' });
    const short = { reserve: true, waitMs: 100 };
    await expect(sandbox.acquire({ workspaceId: 'a', ...short })).rejects.toMatchObject({ code: 'OVERLOADED' });
    // Of another workspace, which did not use it up, short runs go on.
    const other = await sandbox.acquire({ workspaceId: 'b', reserve: true });
    await other.release();
    expect(resultOf(await run)).toBe(220);
    // Whether the cell goes depends on how much of it the system has back by now; either way runs start again.
    await lease.release();
    expect(resultOf(await runOnce(sandbox, one))).toBe(1);
  });

  it('ends a check whose cell has stopped answering', async () => {
    sandbox = await startSandbox({ cells: 1, prewarmed: 1 });
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const check = lease.check(
      'for (const end = Date.now() + 500; Date.now() < end; ); export const main = () => 1;',
      32,
    );
    process.kill(lease.pid, 'SIGSTOP');
    expect(await check).toMatchObject({ ok: false, message: expect.stringContaining('stopped answering') });
    await lease.release();
    expect(gone(lease.pid)).toBe(true);
  });

  it('leaves no process behind when it stops', async () => {
    sandbox = await startSandbox();
    const lease = await sandbox.acquire({ workspaceId: 'a' });
    const { run, called } = suspend(lease);
    await called;
    await sandbox.stop();
    expect((await run).end).toEqual({ type: 'gone', lost: false, logs: [] });
    expect(gone(lease.pid)).toBe(true);
  });

  it('runs many trees side by side', async () => {
    sandbox = await startSandbox({ cells: 8, prewarmed: 2 });
    const script = `export function main({ n, depth }) { return depth === 4 ? n : tailor.workflow.execJobFunction('self', { n: n + 1, depth: depth + 1 }); }`;
    const runs = Array.from({ length: 30 }, (_, n) =>
      runOnce(sandbox, script, { args: { n, depth: 1 }, jobs: { self: script } }).then(resultOf),
    );
    expect(await Promise.all(runs)).toEqual(Array.from({ length: 30 }, (_, n) => n + 3));
  });
});
