import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BodyEnd, Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, packageRoot, resultOf, runIn, runOnce, startSandbox } from './harness.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const attack = (file: string) => readFileSync(join(packageRoot, 'test/fixtures/attacks', file), 'utf8');

function expectMemory(end: BodyEnd, limitMb: number): void {
  const { error, usage } = failureOf({ end });
  expect(error).toMatchObject({ code: 'MEMORY_LIMIT_EXCEEDED', kind: 'USER_NON_RUNTIME' });
  const used = new RegExp(`^Memory limit exceeded: used (\\d+) MB of ${limitMb} MB limit$`).exec(error.message);
  expect(Number(used?.[1])).toBeGreaterThan(limitMb);
  expect(usage.memoryLimitBytes).toBe(limitMb * 1024 * 1024);
}

/** CPU time that a process has used so far, in ticks of 10 ms. */
function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

describe('memory', () => {
  it.each([
    ['objects', '01-array-push-objects.js'],
    ['strings', '02-string-doubling-flat.js'],
    ['ArrayBuffers', '05-arraybuffer-1mb-loop.js'],
    ['resizable ArrayBuffers', '09-growable-sab-resizable-ab.js'],
    ['one huge array', '13-array-2p27-fill.js'],
    ['BigInts', '18-bigint-huge.js'],
    ['a getter in the result', '27-getter-in-result.js'],
    ['ICU objects', '42-intl-native-memory.js'],
    ['one huge split', '45-large-object-one-shot-2gb.js'],
  ])('of a Function ends at 32 MB: %s', async (_, file) => {
    const { end } = await runOnce(sandbox, attack(file), { type: 'STANDARD', limits: { memoryMb: 32, cpuMs: 60_000 } });
    expectMemory(end, 32);
  });

  it('of a job function ends at 256 MB, and the next body in another cell is unharmed', async () => {
    const script = 'export function main() { const all = []; for (;;) all.push(new Uint8Array(1 << 22).fill(1)); }';
    const [{ end }, clean] = await Promise.all([
      runOnce(sandbox, script),
      runOnce(sandbox, 'export const main = () => 1;'),
    ]);
    expectMemory(end, 256);
    expect(resultOf(clean)).toBe(1);
  });

  it('lets a script catch a refused allocation and go on within its limit', async () => {
    const script = `export function main() {
      const keep = [];
      try { for (;;) keep.push(new Uint8Array(8 << 20)); } catch (e) { const n = keep.length; keep.length = 1; return [e.name, n > 1]; }
    }`;
    expect(resultOf(await runOnce(sandbox, script, { limits: { memoryMb: 64 } }))).toEqual(['RangeError', true]);
  });

  it('is honest about what fits: 24 MB of 32, 200 of 256', async () => {
    const script = `export function main({ mb }) { const all = []; for (let i = 0; i < mb; i++) all.push(new Uint8Array(1 << 20).fill(1)); return all.length; }`;
    expect(resultOf(await runOnce(sandbox, script, { args: { mb: 24 }, limits: { memoryMb: 32 } }))).toBe(24);
    const big = await runOnce(sandbox, script, { args: { mb: 200 } });
    expect(resultOf(big)).toBe(200);
    expect(big.end.type === 'returned' && big.end.usage.peakMemoryBytes).toBeGreaterThan(150 * 1024 * 1024);
  });

  it('does not add up over honest nesting', async () => {
    const script = `export function main({ depth }) {
      const mine = []; for (let i = 0; i < 200; i++) mine.push(new Uint8Array(1 << 20).fill(1));
      return mine.length + (depth < 3 ? tailor.workflow.execJobFunction('self', { depth: depth + 1 }) : 0);
    }`;
    expect(resultOf(await runOnce(sandbox, script, { args: { depth: 1 }, jobs: { self: script } }))).toBe(600);
  });

  it('of a nested body is its own failure, which the caller may catch', async () => {
    const script = `export function main() { try { tailor.workflow.execJobFunction('hog'); } catch (e) { return [e.code, e.message]; } }`;
    const hog = 'export function main() { const all = []; for (;;) all.push(new Uint8Array(1 << 22).fill(1)); }';
    expect(resultOf(await runOnce(sandbox, script, { jobs: { hog } }))).toEqual([
      'MEMORY_LIMIT_EXCEEDED',
      expect.stringMatching(/^Memory limit exceeded: used \d+ MB of 256 MB limit$/),
    ]);
  });
});

describe('time', () => {
  it.each([
    ['a loop', '37-infinite-loop.js'],
    ['a loop that catches everything', '38-catch-terminate-loop.js'],
    ['a regular expression', '15-regex-catastrophe.js'],
    ['a builtin that is not interrupted', '40-builtin-loop-uninterruptible.js'],
  ])('on the CPU ends: %s', async (_, file) => {
    const { error, usage } = failureOf(await runOnce(sandbox, attack(file), { limits: { cpuMs: 300 } }));
    expect(error).toMatchObject({ code: 'CPU_LIMIT_EXCEEDED', kind: 'USER_NON_RUNTIME' });
    expect(error.message).toMatch(/^CPU limit exceeded: used \d+ ms of 300 ms limit$/);
    expect(usage.cpuMs).toBeGreaterThan(300);
  });

  it('in asynchronous loops ends too', async () => {
    for (const code of ['for (;;) await null;', 'for (;;) await new Promise((r) => setTimeout(r, 0));']) {
      const run = await runOnce(sandbox, `export async function main() { ${code} }`, {
        limits: { cpuMs: 200, wallMs: 3_000 },
      });
      expect(failureOf(run).error.code).toMatch(/^(CPU|TIME)_LIMIT_EXCEEDED$/);
    }
  });

  it('counts what the cell computes for a script, too', async () => {
    // Each timer that is due before all others is a message to the cell.
    const script = 'export function main() { for (let due = 2e9; ; due--) clearTimeout(setTimeout(() => {}, due)); }';
    const lease = await sandbox.acquire({ workspaceId: 'timers' });
    const before = cpuMsOf(lease.pid);
    const { error, usage } = failureOf(await runIn(lease, script, { limits: { cpuMs: 1_000 } }));
    const used = cpuMsOf(lease.pid) - before;
    await lease.release();
    expect(error.code).toBe('CPU_LIMIT_EXCEEDED');
    expect(usage.cpuMs).toBeGreaterThan(used / 2);
  });

  it('on the wall ends, while waiting', async () => {
    const script = 'export const main = () => new Promise((resolve) => setTimeout(resolve, 60_000));';
    const { error } = failureOf(await runOnce(sandbox, script, { limits: { wallMs: 200 } }));
    expect(error).toMatchObject({ code: 'TIME_LIMIT_EXCEEDED', kind: 'USER_NON_RUNTIME' });
    expect(error.message).toMatch(/^Time limit exceeded: used \d+ ms of 200 ms limit$/);
  });

  it('does not count while a body is blocked in a job call (D26)', async () => {
    const script = `export const main = () => tailor.workflow.execJobFunction('slow');`;
    const run = await runOnce(sandbox, script, {
      limits: { wallMs: 300 },
      onCall: () => new Promise((resolve) => setTimeout(() => resolve({ value: '"late"' }), 900)),
    });
    expect(resultOf(run)).toBe('late');
    expect(run.end.type === 'returned' && run.end.usage.wallMs).toBeLessThan(900);
  });
});

describe('what else a script does to its runtime', () => {
  it('pollution of every intrinsic harms only itself (attack 50)', async () => {
    expect(resultOf(await runOnce(sandbox, attack('50-prototype-pollution-of-runtime.js')))).toEqual({ a: 1 });
  });

  it('microtasks left over when main has returned are not run', async () => {
    expect(resultOf(await runOnce(sandbox, attack('19-microtask-flood.js')))).toBeNull();
  });

  it('timers are bounded', async () => {
    const script = `export function main() { let n = 0; try { for (;;) { setTimeout(() => {}, 1e6 - n); n++; } } catch (e) { return [n, e.code]; } }`;
    expect(resultOf(await runOnce(sandbox, script))).toEqual([10_000, 'CALL_NOT_ALLOWED']);
  });

  it('a call from a Function is answered by the server, not here', async () => {
    const lease = await sandbox.acquire({ workspaceId: 'fn' });
    const run = await runIn(lease, `export const main = () => tailor.workflow.execJobFunction('x');`, {
      type: 'STANDARD',
      onCall: () => ({
        error: { name: 'Error', message: 'Only inside a workflow.', stack: '', code: 'CALL_NOT_ALLOWED' },
      }),
    });
    expect(failureOf(run).error).toMatchObject({ code: 'CALL_NOT_ALLOWED', message: 'Only inside a workflow.' });
    await lease.release();
  });
});
