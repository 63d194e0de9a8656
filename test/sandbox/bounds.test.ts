import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { trackGrowth } from '../../src/sandbox/growth.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, messages, resultOf, runOnce, startSandbox } from './harness.ts';

/** S4: what a script can make its cell and the server hold. */
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

describe('calls that a script does not wait for', () => {
  const flood = `export async function main({ count, chars }) {
    for (let i = 0; i < count; i++) tailor.workflow.startWorkflow('w', { i, text: 'q'.repeat(chars) }).catch(() => {});
    return 'returned';
  }`;

  it('are all made, in order, before the end is told, however large they are together', async () => {
    const args = { count: 40, chars: 1_000_000 };
    const run = await runOnce(sandbox, flood, { args, onCall: () => ({ value: '"id"' }) });
    expect(resultOf(run)).toBe('returned');
    expect(run.calls.map(({ payload }) => (JSON.parse(payload!) as { i: number }).i)).toEqual(
      Array.from({ length: 40 }, (_, i) => i),
    );
  });

  it('wait in the cell as memory of the script when the server has enough of them', async () => {
    const args = { count: 100, chars: 3_500_000 };
    const run = await runOnce(sandbox, flood, {
      args,
      limits: { memoryMb: 32 },
      onCall: () => new Promise(() => {}),
    });
    expect(failureOf(run).error.code).toBe('MEMORY_LIMIT_EXCEEDED');
    expect(run.calls.length).toBe(1);
  });

  it('may be answered long after the end: a cell that only waits for that is not stuck', async () => {
    const run = await runOnce(sandbox, flood, {
      args: { count: 1, chars: 1 },
      onCall: () => sleep(7_000, { value: '"id"' }),
    });
    expect(resultOf(run)).toBe('returned');
  });
});

test('uncaught errors are logged up to a bound', async () => {
  const script = `export function main() {
    const timers = Array.from({ length: 100 }, () => setInterval(() => { throw new Error('t'.repeat(8000)); }, 1));
    return new Promise((resolve) => setTimeout(() => { timers.forEach(clearInterval); resolve(1); }, 4000));
  }`;
  const run = await runOnce(sandbox, script);
  expect(resultOf(run)).toBe(1);
  const lines = messages(run.logs);
  expect(lines.at(-1)).toBe('Further uncaught errors of this run are not shown.');
  expect(lines.join('').length).toBeLessThan(1.1 * 1024 * 1024);
});

test('log lines that were written right before the cell is killed are kept', async () => {
  const script = `export function main() {
    console.log('last words');
    for (;;) { const b = new ArrayBuffer(8, { maxByteLength: 1 << 30 }); b.resize(1 << 30); new Uint8Array(b).fill(1); }
  }`;
  const run = await runOnce(sandbox, script, { limits: { memoryMb: 32 } });
  expect(failureOf(run)).toMatchObject({ treeGone: true, error: { code: 'MEMORY_LIMIT_EXCEEDED' } });
  expect(messages(run.logs)).toEqual(['last words']);
});

describe('the growth of a body', () => {
  it('leaves out what nested bodies have left behind, as long as it is there', () => {
    const growth = trackGrowth(100);
    growth.block(300);
    growth.unblock(450);
    expect(growth.now).toBe(200);
    expect(growth.read(500)).toBe(250);
    // The leftover is gone.
    expect(growth.read(300)).toBe(200);
    expect(growth.read(500)).toBe(400);
    expect(growth.peak).toBe(400);
  });

  it('never counts a smaller cell as a leftover', () => {
    const growth = trackGrowth(100);
    growth.block(150);
    growth.unblock(90);
    expect(growth.read(90)).toBe(-10);
    expect(growth.read(200)).toBe(100);
  });
});
