import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BodyReplay } from '../../src/sandbox/protocol.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { newReplay, replayOf, resultOf, runOnce, startSandbox } from './harness.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const run = (script: string, replay: BodyReplay | null) =>
  runOnce(sandbox, script, { replay, onCall: () => ({ value: 'null' }) });
const result = async (script: string, replay: BodyReplay | null) => resultOf(await run(script, replay));

const draws = `export function main() {
  const draw = () => [Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(5))], Math.random()];
  const before = draw();
  tailor.workflow.execJobFunction('a');
  const between = draw();
  tailor.workflow.execJobFunction('b');
  return [before, between, draw()];
}`;

describe('the chance of a body (D13)', () => {
  it('is the same in a replay, and another one past the last record', async () => {
    const first = await run(draws, newReplay({ run: 1 }));
    const [before, between, after] = resultOf(first) as unknown[];
    expect(new Set([before, between, after].map((drawn) => JSON.stringify(drawn))).size).toBe(3);
    const replayed = (await result(draws, { ...replayOf(first.calls, 1), run: 2 })) as unknown[];
    expect(replayed.slice(0, 2)).toEqual([before, between]);
    expect(replayed[2]).not.toEqual(after);
    // The same run of the same body, as a tree that is grown again from the journal.
    expect(await result(draws, replayOf(first.calls, 1))).toEqual([before, between, after]);
  });

  it('is fresh when a body is run again, and differs between bodies', async () => {
    const first = await result(draws, newReplay({ run: 1 }));
    expect(await result(draws, newReplay({ run: 1 }))).toEqual(first);
    expect(await result(draws, newReplay({ run: 2 }))).not.toEqual(first);
    const otherKey = Buffer.alloc(32, 9).toString('base64');
    expect(await result(draws, { ...newReplay({ run: 1 }), chanceKey: otherKey })).not.toEqual(first);
  });

  it('is real in a body that is never replayed', async () => {
    const [first, second] = [await result(draws, null), await result(draws, null)];
    expect(first).not.toEqual(second);
  });

  it('gives numbers of 53 bits, evenly, over many blocks', async () => {
    const script = `export function main() {
      let sum = 0, below = 0, odd = 0;
      const n = 200_000;
      for (let i = 0; i < n; i++) {
        const x = Math.random();
        if (!(x >= 0 && x < 1)) return x;
        sum += x;
        if (x < 0.1) below++;
        if ((x * 2 ** 53) % 2 === 1) odd++;
      }
      return [sum / n, below / n, odd / n];
    }`;
    const [mean, below, odd] = (await result(script, newReplay())) as [number, number, number];
    expect(mean).toBeCloseTo(0.5, 2);
    expect(below).toBeCloseTo(0.1, 2);
    expect(odd).toBeCloseTo(0.5, 2);
  });

  it('does not repeat itself from block to block', async () => {
    const script = `export function main() {
      const bytes = new Uint8Array(65_536);
      crypto.getRandomValues(bytes);
      const blocks = new Set();
      for (let i = 0; i < bytes.length; i += 16) blocks.add(bytes.subarray(i, i + 16).join());
      return blocks.size;
    }`;
    expect(await result(script, newReplay())).toBe(4_096);
    expect(await result(script, null)).toBe(4_096);
  });

  it('fills typed arrays of integers in place, and nothing else', async () => {
    const script = `export function main() {
      const kinds = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array];
      const filled = kinds.every((Kind) => {
        const array = new Kind(64);
        return crypto.getRandomValues(array) === array && array.some((value) => value != 0);
      });
      const buffer = new Uint8Array(64);
      crypto.getRandomValues(buffer.subarray(16, 48));
      const part = buffer.subarray(0, 16).every((b) => b === 0) && buffer.subarray(48).every((b) => b === 0) && buffer.subarray(16, 48).some((b) => b !== 0);
      const empty = crypto.getRandomValues(new Uint8Array(0)).length;
      const error = (value) => { try { crypto.getRandomValues(value); return 'none'; } catch (thrown) { return thrown.name; } };
      return [filled, part, empty, crypto.getRandomValues(new Uint8Array(65_536)).length,
        [new Float64Array(1), new Float32Array(1), new DataView(new ArrayBuffer(1)), [], undefined, {}, new Uint8Array(65_537), new Uint32Array(16_385)].map(error)];
    }`;
    for (const replay of [newReplay(), null]) {
      expect(await result(script, replay)).toEqual([
        true,
        true,
        0,
        65_536,
        [
          'TypeMismatchError',
          'TypeMismatchError',
          'TypeMismatchError',
          'TypeError',
          'TypeError',
          'TypeError',
          'QuotaExceededError',
          'QuotaExceededError',
        ],
      ]);
    }
  });

  it('makes UUIDs of version 4', async () => {
    const script = 'export const main = () => Array.from({ length: 1000 }, () => crypto.randomUUID());';
    const uuids = (await result(script, newReplay())) as string[];
    expect(new Set(uuids).size).toBe(1_000);
    for (const uuid of uuids)
      expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  it('can be drawn at the top level of a script, and does not reach the script as a key', async () => {
    const script = `const top = [Math.random(), crypto.randomUUID()];
    String.prototype.charCodeAt = Uint8Array.prototype.set = Array.prototype.map = Object.prototype.get = undefined;
    export const main = () => [top, Math.random(), crypto.randomUUID(), typeof crypto.subtle.digest];`;
    const first = await result(script, newReplay());
    expect(await result(script, newReplay())).toEqual(first);
    expect(JSON.stringify(first)).not.toContain(newReplay().chanceKey);
  });
});
