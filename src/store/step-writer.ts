import { ClaimLostError } from './claim-lost.ts';
import { untilConnected } from './connection-errors.ts';
import type { Pool } from './database.ts';
import { commitEnds, commitStarts, type StartOutcome, type StepEnd, type StepStart, stepKey } from './steps.ts';

/**
 * One statement at a time while they are quick, so that what arrives meanwhile comes together in the next one: a statement
 * of one entry costs PostgreSQL a third of one of eight (8 runs on 2 cores: 20 % more steps than with two at a time). One
 * that takes longer than this, ms, holds up nobody else: it waits for a lock, or carries much.
 */
const patienceMs = 20;
/**
 * Statements under way at once, all the same. Two that change stacks of one workspace would wait for each other in the
 * database (0006_slots.sql), so its entries wait here.
 */
const inFlight = 4;
/** Entries of one statement at most, so that one slow commit does not hold everybody. */
const groupSize = 64;
/** Characters of one statement's values, but for a single entry that has more: it stands in the memory of both sides. */
const groupChars = 8 * 1024 * 1024;

/**
 * Commits step starts and ends of all runs of this server in groups: whatever arrives while statements are under way
 * goes into the next one (step-path.md, Server).
 * Measured there, 32 runs: 13,010 starts and ends a second in groups, 8,374 one by one.
 */
export interface StepWriter {
  /**
   * Only what is `started` is written.
   * @throws ClaimLostError when the execution is no longer this claim's; the database's error when the row is refused.
   */
  start(entry: StepStart): Promise<StartOutcome>;
  /** @throws ClaimLostError when the execution is no longer this claim's; the database's error when the row is refused. */
  end(entry: StepEnd): Promise<void>;
}

type Entry = ({ start: StepStart } | { end: StepEnd }) & {
  resolve: (outcome: StartOutcome) => void;
  reject: (error: unknown) => void;
};

const claimOf = (entry: Entry) => ('start' in entry ? entry.start : entry.end);
/** Main's slot came with the claim (D19): its start changes no pool. */
const changesPools = (entry: Entry) => !('start' in entry) || entry.start.stack.frames > 1;

/** Characters of what can be large in it. */
function charsOf(entry: Entry): number {
  const { logs } = claimOf(entry);
  const own = 'start' in entry ? entry.start.args.length : (entry.end.result ?? entry.end.error ?? '').length;
  return logs.reduce((sum, { message, attributes }) => sum + message.length + (attributes?.length ?? 0), own);
}

export function createStepWriter(pool: Pool): StepWriter {
  let waiting: Entry[] = [];
  let busy = 0;
  /** The statement that the next ones still wait for. */
  let quick: object | undefined;
  const busyWorkspaces = new Set<string>();

  /** The entries that go next: of one kind, of each execution one, none of a workspace that is busy. */
  function takeGroup(): Entry[] {
    const group: Entry[] = [];
    const rest: Entry[] = [];
    // What a stack holds is changed by one entry after the other.
    const executions = new Set<string>();
    let isStart: boolean | undefined;
    let chars = 0;
    for (const entry of waiting) {
      const { executionId, workspaceId } = claimOf(entry);
      const free = !executions.has(executionId) && !(changesPools(entry) && busyWorkspaces.has(workspaceId));
      executions.add(executionId);
      if (free) isStart ??= 'start' in entry;
      const taken =
        free &&
        'start' in entry === isStart &&
        group.length < groupSize &&
        (group.length === 0 || chars + charsOf(entry) <= groupChars);
      if (taken) chars += charsOf(entry);
      (taken ? group : rest).push(entry);
    }
    waiting = rest;
    return group;
  }

  function pump(): void {
    while (quick === undefined && busy < inFlight && waiting.length > 0) {
      const group = takeGroup();
      if (group.length === 0) return;
      send(group);
    }
  }

  function send(group: Entry[]): void {
    const workspaces = new Set(group.filter(changesPools).map((entry) => claimOf(entry).workspaceId));
    for (const workspace of workspaces) busyWorkspaces.add(workspace);
    busy++;
    quick = group;
    const noLongerQuick = () => {
      if (quick === group) quick = undefined;
      pump();
    };
    const timer = setTimeout(noLongerQuick, patienceMs);
    void commit(pool, group).finally(() => {
      clearTimeout(timer);
      for (const workspace of workspaces) busyWorkspaces.delete(workspace);
      busy--;
      noLongerQuick();
    });
  }

  function enqueue(entry: { start: StepStart } | { end: StepEnd }): Promise<StartOutcome> {
    return new Promise((resolve, reject) => {
      waiting.push({ ...entry, resolve, reject });
      pump();
    });
  }

  return { start: (start) => enqueue({ start }), end: async (end) => void (await enqueue({ end })) };
}

async function commit(pool: Pool, group: Entry[]): Promise<void> {
  try {
    const written = await untilConnected(() => write(pool, group));
    for (const entry of group) {
      const { executionId, path } = claimOf(entry);
      const outcome = written.get(stepKey(executionId, path));
      if (outcome) entry.resolve(outcome);
      else entry.reject(new ClaimLostError(executionId));
    }
  } catch (error) {
    if (group.length === 1) return group[0]!.reject(error);
    // One entry that the database refuses must not fail its neighbours (D33).
    for (const entry of group) await commit(pool, [entry]);
  }
}

/** @returns what became of each entry whose claim still stands, by `stepKey`; of an end nothing more is to be said. */
async function write(pool: Pool, group: Entry[]): Promise<Map<string, StartOutcome>> {
  const starts = group.flatMap((entry) => ('start' in entry ? [entry.start] : []));
  if (starts.length > 0) return commitStarts(pool, starts);
  const ends = group.flatMap((entry) => ('end' in entry ? [entry.end] : []));
  const written = await commitEnds(pool, ends);
  return new Map([...written].map((key) => [key, 'started']));
}
