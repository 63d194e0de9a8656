import { memoryBound } from '../../src/sandbox/memory-bound.ts';
import type { Attack, Ending } from './attacks.ts';
import type { Measurement, Sampler } from './sampler.ts';
import { isReady, type Kind, memoryMbOf, type Outcome, type Target } from './target.ts';

const MiB = 1024 * 1024;

/** What every row is judged by; docs/conformance.md shows them. */
export const rules = {
  /** A cell may be over its bound without a break for so long: what looking, killing and giving back memory need, ms. */
  overBoundMs: 500,
  /** From passing the memory bound or the CPU limit to the answer: the grace of 0.5 s, and a busy machine, ms. */
  stopMs: 10_000,
  /** The server process may grow by so much during a row, MB. Some 20 payloads of 4 MiB under way are that much. */
  serverGrowthMb: 300,
  /** Clean runs beside. */
  cleanRuns: 20,
};

export interface Row {
  attack: string;
  kind: Kind;
  beside: number;
  outcome: Outcome;
  measured: Measurement;
  /** From passing the limit to the answer, ms; null when no limit was seen passed. */
  stopMs: number | null;
  /** What was not as it has to be; empty for a contained attack. */
  violations: string[];
}

/** Runs a script once, with so many clean runs beside it, and judges what happened. */
export async function runRow(
  target: Target,
  sampler: Sampler,
  attack: Attack,
  kind: Kind,
  beside: number,
): Promise<Row> {
  const limitMb = memoryMbOf(kind);
  await sampler.begin({ limitBytes: limitMb * MiB, boundBytes: memoryBound(limitMb), cpuMs: target.cpu[kind] });
  const clean = target.cleanRuns(beside);
  const outcome = await target.run(kind, attack.name, attack.source);
  const answeredAt = performance.timeOrigin + performance.now();
  const wrong = await clean;
  const measured = await sampler.end();
  const since = (at: number | null) => (at === null ? null : Math.max(0, answeredAt - at));
  const stopMs = since(measured.firstOver);
  const violations = [
    ...judgeOutcome(attack.expected, outcome, limitMb),
    ...judge(measured, since(measured.hadToStop)),
    ...judgeSight(outcome, measured, limitMb),
    ...wrong,
  ];
  if (!(await isReady(target.server))) violations.push('the server is not ready afterwards');
  return { attack: attack.name, kind, beside, outcome, measured, stopMs, violations };
}

function judgeOutcome(expected: readonly Ending[], outcome: Outcome, limitMb: number): string[] {
  const ending = endingOf(outcome);
  const wrong: string[] = [];
  if (ending === null || !expected.includes(ending)) {
    wrong.push(
      `ended with ${outcome.code ?? 'a result'} (${outcome.message.slice(0, 200)}), not ${expected.join('/')}`,
    );
  }
  if (ending === 'memory') {
    const found = /^Memory limit exceeded: used (\d+) MB of (\d+) MB limit$/.exec(outcome.message);
    if (found === null || Number(found[2]) !== limitMb || Number(found[1]) <= limitMb) {
      wrong.push(`the error says ${JSON.stringify(outcome.message.slice(0, 200))}`);
    }
  }
  return wrong;
}

/** A cell that ended over its memory limit must have been seen to grow, or nothing was measured. */
function judgeSight({ code }: Outcome, { peakBytes }: Measurement, limitMb: number): string[] {
  if (code !== 'MEMORY_LIMIT_EXCEEDED' || peakBytes > (limitMb * MiB) / 2) return [];
  return ['the cell was not seen to grow, so this row measured nothing'];
}

const endings: Record<string, Ending> = {
  MEMORY_LIMIT_EXCEEDED: 'memory',
  CPU_LIMIT_EXCEEDED: 'cpu',
  PAYLOAD_TOO_LARGE: 'too-large',
  SCRIPT_ERROR: 'error',
  CALL_NOT_ALLOWED: 'error',
};

function endingOf({ code }: Outcome): Ending | null {
  return code === null ? 'returned' : (endings[code] ?? null);
}

function judge(measured: Measurement, lateMs: number | null): string[] {
  const wrong: string[] = [];
  if (measured.overBoundMs > rules.overBoundMs) {
    wrong.push(`a cell was over its memory bound for ${Math.round(measured.overBoundMs)} ms`);
  }
  if (lateMs !== null && lateMs > rules.stopMs)
    wrong.push(`it went on for ${Math.round(lateMs)} ms when it had to end`);
  const serverMb = Math.round(measured.serverGrownBytes / MiB);
  if (serverMb > rules.serverGrowthMb) wrong.push(`the server process grew by ${serverMb} MB`);
  return wrong;
}
