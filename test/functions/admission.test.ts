import { expect, test } from 'vitest';
import { Admission } from '../../src/functions/admission.ts';
import { limits } from '../../src/limits.ts';
import { createFairness } from '../../src/sandbox/fairness.ts';

const never = () => new Promise<never>(() => {});

test('the queue is bounded, in all and for each workspace', async () => {
  const admission = new Admission();
  const half = limits.functionQueue / 2;
  for (let i = 0; i < half; i++) void admission.enter('a', 10, never);
  await expect(admission.enter('a', 10, async () => 1)).rejects.toMatchObject({
    code: 'OVERLOADED',
    message: expect.stringContaining('this workspace'),
  });
  expect(await admission.enter('b', 10, async () => 'b')).toBe('b');
  for (let i = 0; i < half; i++) void admission.enter('b', 10, never);
  await expect(admission.enter('c', 10, async () => 1)).rejects.toMatchObject({
    code: 'OVERLOADED',
    message: expect.stringContaining('this server'),
  });
});

test('its bytes are bounded, and whoever leaves makes room', async () => {
  const admission = new Admission();
  const large = limits.functionQueueBytes / 4;
  const leave = Promise.withResolvers<void>();
  const first = admission.enter('a', large, () => leave.promise);
  void admission.enter('a', large, never);
  await expect(admission.enter('a', 1, async () => 1)).rejects.toMatchObject({ code: 'OVERLOADED' });
  leave.resolve();
  await first;
  expect(await admission.enter('a', large, async () => 2)).toBe(2);
  await expect(admission.enter('a', large, () => Promise.reject(new Error('gone')))).rejects.toThrow('gone');
  expect(await admission.enter('a', large, async () => 3)).toBe(3);
});

test('cells are handed out in turns, and the reserve is kept', () => {
  const fairness = createFairness(8, 2);
  const run = (workspaceId: string) => ({ workspaceId, reserve: false });
  const short = (workspaceId: string) => ({ workspaceId, reserve: true });
  for (let i = 0; i < 6; i++) fairness.take(run('a'));
  expect(fairness.room()).toBe(0);
  expect(fairness.admits(run('b'))).toBe(false);
  expect(fairness.admits(short('a'))).toBe(true);
  fairness.take(short('a'));
  // Seven of eight: the last one is for others.
  expect(fairness.admits(short('a'))).toBe(false);
  expect(fairness.admits(short('b'))).toBe(true);
  fairness.giveBack(run('a'));
  expect(fairness.room()).toBe(1);
  // Nor do runs take the last one, whosever they are.
  fairness.take(short('c'));
  expect(fairness.room()).toBe(0);
  expect([run('a'), run('b'), short('b')].map(fairness.admits)).toEqual([false, false, true]);

  const turns = createFairness(100, 0);
  const waiters = ['a', 'a', 'a', 'b', 'c', 'c'].map(short);
  const order: string[] = [];
  while (waiters.length > 0) {
    const [next] = waiters.splice(
      turns.next(waiters, () => true),
      1,
    );
    turns.take(next!);
    order.push(next!.workspaceId);
  }
  expect(order.join('')).toBe('abcaca');
  expect(turns.next([], () => true)).toBe(-1);
  expect(turns.next([short('a')], () => false)).toBe(-1);
});
