import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startServer } from '../support/server.ts';
import { loadAttacks } from './attacks.ts';
import { honestUses } from './honest.ts';
import { rules, runRow } from './rows.ts';
import { type Sampler, startSampler } from './sampler.ts';
import { ampleCpuLimits, environmentOf, type Kind, openTarget, type Target } from './target.ts';

/** The short form of `npm run conformance`: a few attacks on memory and bounds, by the same rules. CPU: `test/engine/containment.test.ts`. */

let target: Target;
let sampler: Sampler;

beforeAll(async () => {
  const server = await startServer({ env: { ...environmentOf(ampleCpuLimits), JOBCELL_LOG_LEVEL: 'error' } });
  target = await openTarget(server, ampleCpuLimits);
  await target.cleanRuns(20);
  sampler = await startSampler(server.pid);
});
afterAll(() => sampler.stop());

const attacks = loadAttacks();

test.each<[name: string, kind: Kind, beside: number]>([
  ['05-arraybuffer-1mb-loop', 'function', 0],
  ['09-growable-sab-resizable-ab', 'function', rules.cleanRuns],
  ['09-growable-sab-resizable-ab', 'job function', 0],
  ['27-getter-in-result', 'function', 0],
  ['45-large-object-one-shot-2gb', 'job function', 0],
  ['50-prototype-pollution-of-runtime', 'job function', 0],
  ['65-timers-flood', 'job function', 0],
  ['71-start-workflow-flood', 'job function', rules.cleanRuns],
  ['75-intl-segments', 'function', 0],
  ['80-missing-memory', 'function', 0],
  ['97-log-control-characters', 'function', 0],
])('%s as a %s with %i clean runs beside it is contained', async (name, kind, beside) => {
  const attack = attacks.find((each) => each.name === name)!;
  expect((await runRow(target, sampler, attack, kind, beside)).violations).toEqual([]);
});

test('shared and WebAssembly memory, and whatever is of Node, is nowhere to be found', async () => {
  const { source } = attacks.find(({ name }) => name === '80-missing-memory')!;
  expect((await target.run('function', 'missing-memory', source)).result).toEqual([]);
});

describe('honest use succeeds', () => {
  const chosen = honestUses.filter(({ name, kind }) => kind === 'function' || /numbers|Map|nested/.test(name));
  test.each(chosen)('$kind: $name', async ({ name, kind, source, result }) => {
    const outcome = await target.run(kind, name, source);
    expect(outcome).toMatchObject({ code: null });
    expect(JSON.stringify(outcome.result)).toBe(result);
  });
});
