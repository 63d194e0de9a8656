import type { Note } from './counter.ts';
import type { ClaimRow, ExecutionRow, JournalRow, LogRow } from './evidence.ts';
import type { Fault } from './faults.ts';
import { keyCap, poolOf, resultOf, type Size } from './workload.ts';

export interface Evidence {
  /** Id of each execution, by its number in the workload. */
  ids: string[];
  size: Size;
  leaseMs: number;
  notes: Note[];
  faults: Fault[];
  executions: ExecutionRow[];
  journal: JournalRow[];
  logs: LogRow[];
  claims: ClaimRow[];
}

export interface Findings {
  violations: string[];
  /** Bodies that began after the first one of their step. */
  bodiesAgain: number;
  /** Claims after the first one of their execution. */
  claimsAgain: number;
  /**
   * The longest time in which an execution that had begun was not heard of, ms. It begins anew with a fault of the
   * server that holds the execution, and while it waits for its turn behind older ones (D20), with each claim of those;
   * and with what is heard of those that share the slots of its key.
   */
  longestSilenceMs: number;
}

/** What a busy machine may add to a lease before an execution counts as blocked, ms. */
const slackMs = 20_000;
/** Requests of two bodies may overtake each other by this much on their way, ms. */
const wayMs = 1_000;

/** Holds what the counter server and the database saw against what docs/durability.md promises. */
export function check(evidence: Evidence): Findings {
  const { ids } = evidence;
  const violations: string[] = [];
  const executions = new Map(evidence.executions.map((execution) => [execution.id, execution]));
  const notes = Map.groupBy(evidence.notes, (note) => note.execution);
  const journal = Map.groupBy(evidence.journal, (record) => record.execution);
  const logs = Map.groupBy(evidence.logs, (line) => line.execution);
  const claims = Map.groupBy(evidence.claims, (claim) => claim.execution);
  const started = Map.groupBy(evidence.executions, (execution) => execution.parent);
  let bodiesAgain = 0;
  let longestSilenceMs = 0;

  for (const [number, id] of ids.entries()) {
    const found = (what: string) => violations.push(`execution ${number} (${id}): ${what}`);
    const execution = executions.get(id)!;
    const records = journal.get(id) ?? [];
    checkEnd(execution, number, evidence.size, started.get(id) ?? [], found);
    checkLogs(logs.get(id) ?? [], records, evidence.size, found);
    const own = notes.get(number) ?? [];
    const claimed = claims.get(id) ?? [];
    for (const [step, ofStep] of Map.groupBy(own, (note) => note.step)) {
      const record = records.find(({ kind, args }) => kind === 'job' && JSON.parse(args).step === step);
      bodiesAgain += checkBodies(ofStep, record, { step, claimed, faults: evidence.faults }, found);
    }
    // Others under its key: it may wait for the slots that they have.
    const sameKey = evidence.notes.filter(
      (note) =>
        note.execution !== number && poolOf(note.execution, evidence.size).pool === poolOf(number, evidence.size).pool,
    );
    const silence = longestSilence(own, execution, claimed, evidence, sameKey);
    longestSilenceMs = Math.max(longestSilenceMs, silence);
    if (silence > evidence.leaseMs + slackMs) found(`it was blocked for ${silence} ms`);
  }
  violations.push(...checkCaps(evidence));
  const claimsAgain = ids.reduce((sum, id) => sum + Math.max(0, (claims.get(id)?.length ?? 0) - 1), 0);
  return { violations, bodiesAgain, claimsAgain, longestSilenceMs };
}

type Found = (what: string) => void;

/** It has succeeded with the right result, and has started one other execution, the one it names (D6). */
function checkEnd(execution: ExecutionRow, number: number, size: Size, started: ExecutionRow[], found: Found): void {
  if (execution.status !== 'SUCCESS') return void found(`it ended as ${execution.status}: ${execution.error}`);
  const result = JSON.parse(execution.result!) as { sum: number; started: string };
  const sum = resultOf(number, size.steps);
  if (result.sum !== sum) found(`its sum is ${result.sum} instead of ${sum}`);
  if (started.length !== 1) found(`it started ${started.length} executions instead of one`);
  else if (started[0]!.id !== result.started) found(`it started ${started[0]!.id} and was told ${result.started}`);
  else if (started[0]!.status !== 'SUCCESS') found(`the execution it started ended as ${started[0]!.status}`);
}

interface Body {
  first: number;
  last: number;
  firstReceived: number;
  lastReceived: number;
}

/**
 * The bodies of one step: one at a time, none after the step's end was committed, and under one claim no more than one,
 * and one more for each fault that can end a cell under a claim that stands.
 * @returns how many bodies began again.
 */
function checkBodies(
  notes: Note[],
  record: JournalRow | undefined,
  { step, claimed, faults }: { step: number; claimed: ClaimRow[]; faults: Fault[] },
  found: Found,
): number {
  const bodies = [...Map.groupBy(notes, (note) => note.body).values()]
    .map((of): Body => {
      const times = of.map((note) => note.at);
      const received = of.map((note) => note.received);
      return {
        first: Math.min(...times),
        last: Math.max(...times),
        firstReceived: Math.min(...received),
        lastReceived: Math.max(...received),
      };
    })
    .sort((a, b) => a.first - b.first);
  for (const [index, body] of bodies.entries()) {
    const next = bodies[index + 1];
    if (next && body.last > next.first) {
      found(`two bodies of step ${step} ran at the same time, for ${body.last - next.first} ms`);
    }
    if (next && body.lastReceived > next.firstReceived + wayMs) {
      found(
        `a body of step ${step} was heard of ${body.lastReceived - next.firstReceived} ms after the next one began`,
      );
    }
  }
  if (record?.status !== 'SUCCESS') found(`step ${step} is ${record?.status ?? 'not recorded'}`);
  const committed = record?.finishedAt?.getTime() ?? Number.POSITIVE_INFINITY;
  const late = bodies.filter((body) => body.first > committed).length;
  if (late > 0) found(`${late} bodies of step ${step} began after its end was committed`);
  if (record && bodies.length > record.runs)
    found(`step ${step} ran ${bodies.length} times and records ${record.runs}`);
  for (const [index, claim] of claimed.entries()) {
    const from = claim.at.getTime();
    const until = claimed[index + 1]?.at.getTime() ?? Number.POSITIVE_INFINITY;
    const begun = bodies.filter((body) => body.first >= from && body.first < until);
    if (begun.length < 2) continue;
    const endsCells = (fault: Fault) => fault.kind === 'cell' || fault.kind === 'away' || fault.kind === 'stall';
    const hits = faults.filter(
      (fault) =>
        endsCells(fault) && fault.server === claim.server && fault.at >= from && fault.at <= begun.at(-1)!.first,
    );
    if (begun.length > 1 + hits.length)
      found(
        `step ${step} ran ${begun.length} times under one claim with ${hits.length} faults; ` +
          timeline(bodies, claimed, faults),
      );
  }
  return bodies.length - 1;
}

/**
 * E4: never more bodies of one key at once than its cap, by their own clock: what a body sent, it sent while it held its
 * slot, whatever became of its server.
 */
function checkCaps({ notes, size }: Evidence): string[] {
  const violations: string[] = [];
  for (const [pool, of] of Map.groupBy(notes, ({ execution }) => poolOf(execution, size).pool)) {
    const bodies = [...Map.groupBy(of, (note) => note.body).values()].map((sent) => sent.map((note) => note.at));
    const moments = bodies.flatMap((sent) => [
      { at: Math.min(...sent), more: 1 },
      { at: Math.max(...sent), more: -1 },
    ]);
    // At one millisecond the ends come first: the two need not have met.
    moments.sort((a, b) => a.at - b.at || a.more - b.more);
    let alive = 0;
    let most = 0;
    for (const { more } of moments) {
      alive += more;
      most = Math.max(most, alive);
    }
    if (most > keyCap) violations.push(`${most} bodies of the key ${pool} ran at once instead of ${keyCap}`);
  }
  return violations;
}

/** What happened around the bodies of a step, for whoever has to understand it. */
function timeline(bodies: Body[], claims: ClaimRow[], faults: Fault[]): string {
  const from = bodies[0]!.first - 10_000;
  const until = bodies.at(-1)!.last + 1_000;
  const events = [
    ...bodies.flatMap(({ first, last }, index) => [
      { at: first, what: `body ${index + 1} begins` },
      { at: last, what: `body ${index + 1} is heard of last` },
    ]),
    ...claims.map((claim) => ({ at: claim.at.getTime(), what: `claim by ${claim.server}` })),
    ...faults.map(({ at, kind, server }) => ({ at, what: `${kind} of ${server}` })),
  ];
  return events
    .filter(({ at }) => at >= from && at <= until)
    .sort((a, b) => a.at - b.at)
    .map(({ at, what }) => `${at - from} ms ${what}`)
    .join(', ');
}

/** D14: no line twice from one run, none again from a replay, and none lost. */
function checkLogs(lines: LogRow[], records: JournalRow[], { steps }: Size, found: Found): void {
  const seen = new Set<string>();
  for (const { path, run, message } of lines) {
    const line = `${path} run ${run}: ${message}`;
    if (seen.has(line)) found(`its log has a line twice: ${line}`);
    seen.add(line);
  }
  for (let step = 0; step < steps; step++) {
    const record = records.find(({ kind, args }) => kind === 'job' && JSON.parse(args).step === step);
    const before = lines.filter((line) => line.message === `before ${step}`);
    if (before.length === 0) found(`the line before step ${step} is lost`);
    const repeated = before.filter((line) => record !== undefined && line.run > record.recordedRun);
    if (repeated.length > 0) found(`the line before step ${step} was written again by a replay`);
    if (!lines.some((line) => line.message === `inside ${step}`)) found(`the line inside step ${step} is lost`);
  }
}

/** The longest time in which nothing was heard of an execution that had begun and not ended, see `Findings`. */
function longestSilence(
  notes: Note[],
  { id, finishedAt }: ExecutionRow,
  own: ClaimRow[],
  { claims, faults }: Evidence,
  sameKey: Note[],
): number {
  const heard = notes.map((note) => note.received);
  if (heard.length === 0) return 0;
  const begun = Math.min(...heard);
  const ended = finishedAt?.getTime() ?? Date.now();
  const hits = faults.filter(
    ({ kind, server, at }) =>
      // The others cost a run some milliseconds.
      kind !== 'cell' && kind !== 'answer' && own.findLast((claim) => claim.at.getTime() <= at)?.server === server,
  );
  const older = claims.filter((claim) => claim.execution < id).map((claim) => claim.at.getTime());
  const others = sameKey.map((note) => note.received);
  const moments = [...heard, ended, ...hits.map((fault) => fault.at), ...older, ...others]
    .filter((moment) => moment >= begun && moment <= ended)
    .sort((a, b) => a - b);
  return moments.reduce((longest, moment, index) => Math.max(longest, moment - (moments[index - 1] ?? moment)), 0);
}
