import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BodyReplay, HostCall } from '../../src/sandbox/protocol.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { newReplay, replayOf, resultOf, runOnce, startSandbox } from './harness.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const run = (script: string, replay: BodyReplay | null) =>
  runOnce(sandbox, script, { replay, onCall: () => ({ value: 'null' }) });

/** Runs the script as a first run, and again with what that recorded. */
async function runTwice(script: string) {
  const first = await run(script, newReplay());
  const second = await run(script, replayOf(first.calls));
  return { first, second };
}

const clocks = (calls: HostCall[]) => calls.map((call) => call.clock);

describe('the clock of a body (D12)', () => {
  it('keeps the readings before each recorded call and answers a replay with them', async () => {
    const script = `const atTop = Date.now();
    export function main() {
      const read = [atTop, Date.now(), new Date().getTime()];
      const spin = read[2] + 3;
      while (Date.now() < spin);
      tailor.workflow.execJobFunction('a');
      read.push(Date.now());
      tailor.workflow.execJobFunction('b');
      tailor.workflow.execJobFunction('c');
      return read;
    }`;
    const { first, second } = await runTwice(script);
    const [a, b, c] = clocks(first.calls);
    const read = resultOf(first) as number[];
    expect(a?.slice(0, 3)).toEqual(read.slice(0, 3));
    expect(a?.length).toBeGreaterThan(3);
    expect(b).toEqual(read.slice(3));
    expect(c).toEqual([]);
    expect(Math.abs(Date.now() - (read[0] as number))).toBeLessThan(60_000);
    expect(resultOf(second)).toEqual(read);
  });

  it('answers every form of reading from the record', async () => {
    const script = `export function main() {
      const format = new Intl.DateTimeFormat('en', { dateStyle: 'full', timeStyle: 'long' });
      const read = [
        Date.now(), +new Date(), Date(), Reflect.construct(Date, []).toISOString(), Date.call({}),
        new (class extends Date {})().getTime(),
        format.format(), format.format(undefined), format.formatToParts(),
        [undefined].map(format.format),
        String(Temporal.Now.instant()), String(Temporal.Now.zonedDateTimeISO()), String(Temporal.Now.plainDateTimeISO('Asia/Tokyo')),
        String(Temporal.Now.plainDateISO()), String(Temporal.Now.plainTimeISO('UTC')),
      ];
      tailor.workflow.execJobFunction('x');
      return read;
    }`;
    const first = await run(script, newReplay());
    expect(first.calls[0]?.clock).toHaveLength(15);
    // Another time altogether, each reading a day later than the one before.
    const day = 86_400_000;
    const clock = Array.from({ length: 15 }, (_, i) => 1_000_000_000_123 + i * day);
    const replayed = await run(script, { ...newReplay(), segments: [{ run: 1, clock }] });
    const iso = (i: number) => new Date(clock[i] as number).toISOString();
    const full = new Intl.DateTimeFormat('en', { dateStyle: 'full', timeStyle: 'long', timeZone: 'UTC' });
    const dateText = (i: number) => `${iso(i).slice(0, 10)}T${iso(i).slice(11, 23)}`;
    const result = resultOf(replayed) as unknown[];
    expect(result.slice(0, 2)).toEqual(clock.slice(0, 2));
    expect(result[2]).toMatch(/^Tue Sep 11 2001 01:46:40 GMT\+0000/);
    expect(result[3]).toBe(iso(3));
    expect(result[4]).toMatch(/^Thu Sep 13 2001/);
    expect(result[5]).toBe(clock[5]);
    expect(result[6]).toBe(full.format(clock[6]));
    expect(result[7]).toBe(full.format(clock[7]));
    expect(result[8]).toEqual(full.formatToParts(clock[8]));
    expect(result[9]).toEqual([full.format(clock[9])]);
    expect(result[10]).toBe(iso(10));
    expect(result[11]).toBe(`${dateText(11)}+00:00[UTC]`);
    expect(result[12]).toBe(new Date((clock[12] as number) + 9 * 3_600_000).toISOString().slice(0, 23));
    expect(result[13]).toBe(iso(13).slice(0, 10));
    expect(result[14]).toBe(iso(14).slice(11, 23));
    expect(replayed.calls[0]?.clock).toEqual(clock);
  });

  it('is real again when the record runs out, and past the last record', async () => {
    const script = `export function main() {
      const read = [Date.now(), Date.now()];
      tailor.workflow.execJobFunction('a');
      read.push(Date.now());
      tailor.workflow.execJobFunction('b');
      return read;
    }`;
    const start = Date.now();
    const replayed = await run(script, { ...newReplay(), segments: [{ run: 1, clock: [5] }] });
    const [recorded, ...real] = resultOf(replayed) as number[];
    expect(recorded).toBe(5);
    for (const at of real) expect(at).toBeGreaterThanOrEqual(start);
    // What was given is what a call that is recorded anew keeps.
    expect(clocks(replayed.calls)).toEqual([[5, real[0]], [real[1]]]);
  });

  it('keeps 256 readings of a segment; more are real and not recorded', async () => {
    const script = `export function main() {
      const read = [];
      for (let i = 0; i < 300; i++) read.push(Date.now());
      tailor.workflow.execJobFunction('a');
      return read;
    }`;
    const first = await run(script, newReplay());
    expect(first.calls[0]?.clock).toEqual((resultOf(first) as number[]).slice(0, 256));
    const clock = Array.from({ length: 256 }, (_, i) => i);
    const replayed = resultOf(await run(script, { ...newReplay(), segments: [{ run: 1, clock }] })) as number[];
    expect(replayed.slice(0, 256)).toEqual(clock);
    expect(Math.min(...replayed.slice(256))).toBeGreaterThan(1_000_000_000_000);
  });

  it('gives the code after an unawaited call its own segment at once', async () => {
    const script = `export async function main() {
      const before = Date.now();
      const started = tailor.workflow.startWorkflow('w');
      const after = Date.now();
      tailor.workflow.execJobFunction('a');
      await started;
      return [before, after];
    }`;
    const segments = [
      { run: 1, clock: [11] },
      { run: 1, clock: [22] },
    ];
    const replayed = await run(script, { ...newReplay(), segments });
    expect(resultOf(replayed)).toEqual([11, 22]);
    expect(clocks(replayed.calls)).toEqual([[11], [22]]);
  });

  it('wraps nothing in a body that is never replayed', async () => {
    const script = `export function main() { Date.now(); tailor.workflow.startWorkflow('w'); return Temporal.Now.instant().epochNanoseconds % 1000n === 0n; }`;
    const { calls } = await run(script, null);
    expect(clocks(calls)).toEqual([[]]);
  });

  it('changes nothing else about Date, Intl and Temporal', async () => {
    const script = `export function main() {
      const describe = (target) => Reflect.ownKeys(target).map((key) => {
        const d = Object.getOwnPropertyDescriptor(target, key);
        const f = d.get ?? d.value;
        return [String(key), d.writable, d.enumerable, d.configurable, typeof f,
          ...(typeof f === 'function' ? [f.name, f.length, String(f), Object.hasOwn(f, 'prototype')] : [])];
      });
      class Day extends Date { next() { return new Day(this.getTime() + 864e5); } }
      const throws = (f) => { try { f(); return 'nothing'; } catch (error) { return error.name; } };
      const format = new Intl.DateTimeFormat('en', { timeZone: 'UTC' });
      const instant = Temporal.Instant.from('2020-01-01T00:00Z');
      return [
        describe(Date), describe(Date.prototype), describe(Intl.DateTimeFormat.prototype), describe(Intl),
        describe(Temporal), describe(Temporal.Now), describe(Math), describe(Function.prototype),
        ['Date', 'Intl', 'Temporal', 'Math'].map((name) => {
          const { writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(globalThis, name);
          return [writable, enumerable, configurable];
        }),
        Object.prototype.toString.call(Temporal), Object.prototype.toString.call(Temporal.Now),
        new Date() instanceof Date, Date.prototype.constructor === Date, new Day(0) instanceof Day,
        new Day(0).next().toISOString(), Object.getPrototypeOf(Day) === Date, Date.UTC(2020, 1, 1), Date.parse('2020-01-01'),
        new Date(2020, 1, 29, 12).toISOString(), new Date('2020-01-01').toJSON(), new Date(new Date(7)).getTime(),
        String(new Date(NaN)), typeof Date(), Date.name, String(new Date(undefined).getTime()),
        throws(() => Date.prototype.getTime.call({})), throws(() => new Date(Symbol())), throws(() => new Date.now()),
        format.format === format.format, format.format(0), throws(() => format.format(NaN)),
        throws(() => Intl.DateTimeFormat.prototype.format), throws(() => format.formatRange()),
        instant instanceof Temporal.Instant, new Date(0).toTemporalInstant() instanceof Temporal.Instant,
        throws(() => Temporal.Now.plainDateISO('Nowhere/Land')), throws(() => new Temporal.Now.instant()),
        Temporal.Now.timeZoneId(), instant.add({ hours: 1 }).since(instant) instanceof Temporal.Duration,
        String(Function.prototype.toString), String(main).slice(0, 15), throws(() => Function.prototype.toString.call({})),
      ];
    }`;
    const wrapped = resultOf(await run(script, newReplay()));
    const native = resultOf(await run(script, null));
    expect(wrapped).toEqual(native);
  });

  it('lets a script replace Date, as it can without us', async () => {
    const script = `Date = class { static now() { return 1; } };
    export function main() { const at = Date.now(); tailor.workflow.execJobFunction('a'); return at; }`;
    const replaced = await runOnce(sandbox, script, {
      format: 'module',
      replay: newReplay(),
      onCall: () => ({ value: 'null' }),
    });
    expect(resultOf(replaced)).toBe(1);
    expect(clocks(replaced.calls)).toEqual([[]]);
  });
});
