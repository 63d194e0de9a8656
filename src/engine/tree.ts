import { uuidv7 } from 'uuidv7';
import { limits } from '../limits.ts';
import type { HostAnswer, HostCall, Usage } from '../sandbox/protocol.ts';
import type { BodyEnd, CellLease } from '../sandbox/sandbox.ts';
import { untilConnected } from '../store/connection-errors.ts';
import { type JournalRecord, type RecordValues, recordFinished } from '../store/journal.ts';
import { declaredKeys } from '../store/policies.ts';
import type { Stack } from '../store/steps.ts';
import { type Body, childPath, stackOf } from './body.ts';
import { handleCall } from './calls.ts';
import { bodyReplay } from './chance.ts';
import {
  atItsCall,
  bodyFailure,
  type Failure,
  mismatch,
  stackLimitFailure,
  uncoveredKeyFailure,
  unknownJobFailure,
} from './failures.ts';
import { HostCalls } from './host-calls.ts';
import { type Journal, valueBytes } from './journal.ts';
import { clockHint, leftOverMessage, type MadeCall } from './replay.ts';
import type { Finish, Run } from './run.ts';
import type { RunLog } from './run-log.ts';

/** How a tree ended. */
export type TreeEnd =
  /** The execution has come to its end, which is yet to be committed. */
  | ({ type: 'finished' } & Finish)
  /** The execution waits, as was committed: it holds no claim any more. */
  | { type: 'parked' }
  /** A dispatch found no room: its stack is to be taken as a whole, or the execution waits for it (D18, D21). */
  | { type: 'blocked'; stack: Stack }
  /** Grow another one from the journal, in the same cell. */
  | { type: 'again' }
  /** The cell is dead: grow another one in a new cell. `lost`: through nobody's fault (D23). */
  | { type: 'cell-gone'; lost: boolean; deepest: Body };

type Stop = TreeEnd | { type: 'broken'; cause: unknown } | { type: 'abandoned' };

/**
 * The bodies of one run in one cell: main, and under it whatever is called. A stack runs one body at a time; the
 * others are blocked in a call (architecture.md, "Deciding points").
 *
 * A tree decides its end once, in `stop`: by main's return, or earlier when a replay is asked for, a replay does not
 * match, or the claim is lost. Then everything in the cell is dropped and no call is answered any more, so that no
 * `catch` of a script can turn such an end into a result (behaviour.md 3).
 */
export class Tree {
  readonly run: Run;
  readonly journal: Journal;
  readonly log: RunLog;
  readonly hostCalls: HostCalls;
  readonly #cell: CellLease;
  #end: Stop | undefined;
  /** The body that is being ended at a call, and why. */
  #endingAt: { body: Body; failure: Failure } | undefined;
  #dropped: Promise<void> | undefined;
  #deepest: Body;

  constructor(run: Run, cell: CellLease, journal: Journal, log: RunLog) {
    this.run = run;
    this.journal = journal;
    this.log = log;
    this.hostCalls = new HostCalls(run.context.hostOperations.open(run.execution.workspaceId));
    this.#cell = cell;
    this.#deepest = mainBody(run);
  }

  /** Runs main. @throws ClaimLostError, and what the database or the sandbox broke with. */
  async grow(): Promise<TreeEnd> {
    const main = this.#deepest;
    try {
      const end = await this.#runBody(main);
      if (end && !this.#end) this.#end = { type: 'finished', ...end, main: main.ran };
    } catch (error) {
      this.stop({ type: 'broken', cause: error });
    }
    this.hostCalls.end();
    await this.#dropped;
    const end = this.#end;
    if (end?.type === 'broken') throw end.cause;
    if (end === undefined || end.type === 'abandoned') throw new Error('the tree was abandoned');
    return end;
  }

  /** Ends the tree before main does. The first reason stands, unless what it announced could not be committed. */
  stop(end: Stop): void {
    if (this.#end && !(this.#end.type === 'parked' && end.type === 'broken')) return;
    this.#end = end;
    this.hostCalls.end();
    this.#dropped ??= this.#cell.drop();
  }

  /** Resolves when nothing of the tree is left in the cell. */
  async dropped(): Promise<void> {
    await this.#dropped;
  }

  get stopped(): boolean {
    return this.#end !== undefined;
  }

  /**
   * Fails the execution at a call that does not match (D8), once the body has ended there and told its stack.
   * @returns the answer that ends it, without a word to the script.
   */
  endAtCall(body: Body, failure: Failure): HostAnswer {
    this.#endingAt ??= { body, failure };
    const { name, message, code } = this.#endingAt.failure;
    return { fatal: { name, message, stack: '', code } };
  }

  /** Fails the execution at once, whatever its bodies would do: calls left out (D7), a limit of the engine. */
  failExecution(failure: Failure): void {
    this.stop({ type: 'finished', status: 'FAILED', result: null, failure, main: null });
  }

  /**
   * Runs a job function as a child of `parent` and commits its end.
   * @returns its record, or null when the tree has ended.
   */
  async runChild(parent: Body, call: MadeCall): Promise<JournalRecord | null> {
    const child: Body = {
      path: childPath(parent.path, call.position, call.name),
      stackedName: `${parent.stackedName}/${call.name}`,
      call,
      parent,
      frame: parent.frame + 1,
      keys: [...new Set([...parent.keys, ...(call.executionPolicyKey === null ? [] : [call.executionPolicyKey])])],
      calls: 0,
      ran: null,
      pending: Promise.resolve(),
    };
    if (child.frame > limits.stackFrames) return this.refuseCall(parent, call, stackLimitFailure(child, parent));
    this.#deepest = child;
    const end = await this.#runBody(child);
    if (!end) return null;
    if (child.ran === null) return this.refuseCall(parent, call, end.failure!);
    this.#deepest = parent;
    return this.#commitEnd(child, end);
  }

  /** Records a call that failed before it had any effect (D6), and answers it with that failure from then on. */
  async refuseCall(body: Body, call: MadeCall, failure: Failure): Promise<JournalRecord> {
    return this.recordCall(body, call, { status: 'FAILED', result: null, error: JSON.stringify(failure) });
  }

  /** Commits the record of a call that has no other effect in the database. */
  async recordCall(
    body: Body,
    call: MadeCall,
    outcome: { status: 'SUCCESS' | 'FAILED'; result: string | null; error: string | null },
  ): Promise<JournalRecord> {
    const { status, ...values } = outcome;
    const record = { ...finishedRecord(body, call, values), status };
    const finished = { ...this.run.execution, ...record, ...call, ...outcome, id: uuidv7(), logs: this.log.take() };
    await untilConnected(() => recordFinished(this.run.context.pool, finished));
    this.journal.put(record);
    return record;
  }

  /** Commits that a body failed although it did not end by itself (D23). */
  async commitFailure(body: Body, failure: Failure): Promise<void> {
    await this.#commitEnd(body, { status: 'FAILED', result: null, failure, usage: null, failingPosition: null });
  }

  /** Runs one body and commits its start. @returns how it ended, not yet committed; null when the tree has ended. */
  async #runBody(body: Body): Promise<BodyOutcome | null> {
    const { execution, context } = this.run;
    const { name, args } = body.call;
    const { workspaceId, revision, jobFunctions, invoker, seed } = execution;
    const recorded = this.journal.get(body.path);
    // E7: a body that is run again is the version it was, also when its name was uploaded after the revision (D28).
    const version = jobFunctions[name] ?? recorded?.functionVersion ?? undefined;
    const script = await context.scripts.resolve(workspaceId, name, revision, version);
    if (!script) return failed(unknownJobFailure(body));
    if (this.stopped) return null;

    const run = (recorded?.runs ?? 0) + 1;
    const memoryMb = limits.jobFunctionMemoryMb;
    const outcome = await context.writer.start({
      ...claimOf(execution),
      ...body.call,
      stack: stackOf(body),
      path: body.path,
      parentPath: body.parent?.path ?? '',
      id: uuidv7(),
      functionVersion: script.version,
      memoryLimitBytes: memoryMb * 1024 * 1024,
      run,
      logs: this.log.take(),
    });
    if (outcome === 'uncovered') return this.#uncovered(body);
    if (outcome === 'blocked') {
      // No answer, and nothing is recorded: the caller makes the call again, and logs what it logged before it.
      this.stop({ type: 'blocked', stack: stackOf(body) });
      return null;
    }
    body.ran = { path: body.path, run, usage: null, failingPosition: null };
    this.#putRecord(body, {
      status: 'RUNNING',
      result: null,
      error: null,
      functionVersion: script.version,
      runs: run,
      failingPosition: null,
    });
    if (this.stopped) return null;

    const end = await this.#cell.run({
      label: body.stackedName,
      type: 'JOB',
      script: script.source,
      loadSource: script.load,
      loadSourceMap: script.loadSourceMap,
      args,
      context: `{"invoker":${invoker ?? 'null'}}`,
      limits: { memoryMb, cpuMs: context.jobFunctionCpuMs, wallMs: limits.jobFunctionWallMs },
      replay: bodyReplay(seed, body.path, run, this.journal.of(body.path)),
      onCall: (call) => this.#onCall(body, call),
      onLogs: (lines) => {
        if (!this.#replaying(body)) this.log.add(body.path, run, lines);
      },
    });
    return this.#bodyEnded(body, end);
  }

  /** No policy covers the key of a call (behaviour.md 4): it fails there, and says which are declared. */
  async #uncovered(body: Body): Promise<BodyOutcome> {
    const { pool } = this.run.context;
    const { workspaceId } = this.run.execution;
    return failed(uncoveredKeyFailure(body, await untilConnected(() => declaredKeys(pool, workspaceId))));
  }

  async #bodyEnded(body: Body, end: BodyEnd): Promise<BodyOutcome | null> {
    // Calls it made without waiting for their answers are handled before its end is committed (D5).
    await body.pending;
    this.hostCalls.bodyEnded(body);
    if (this.stopped) return null;
    if (end.type === 'gone') {
      this.stop({ type: 'cell-gone', lost: end.lost, deepest: this.#deepest });
      return null;
    }
    if (this.#endingAt?.body === body) {
      const { failure } = this.#endingAt;
      // It may have ended otherwise: had returned already, or met a limit on the way.
      const told = end.type === 'failed' && end.error.code === failure.code;
      this.failExecution(told ? atItsCall(failure, end.error.stack) : failure);
      return null;
    }
    if (!this.#replaying(body)) this.log.add(body.path, body.ran!.run, end.logs);
    body.ran!.usage = end.usage;
    if (end.type === 'returned') {
      if (this.journal.from(body.path, body.calls).length > 0) {
        this.failExecution(mismatch(body, await this.#leftOver(body)));
        return null;
      }
      return { status: 'SUCCESS', result: end.result, failure: null, usage: end.usage, failingPosition: null };
    }
    const { failingPosition } = end;
    body.ran!.failingPosition = failingPosition;
    const failedCall = failingPosition === null ? undefined : this.journal.at(body.path, failingPosition);
    const origin = failedCall && (await this.journal.values(failedCall)).error;
    const failure = bodyFailure(end.error, body.stackedName, origin ? (JSON.parse(origin) as Failure) : undefined);
    const outcome: BodyOutcome = { status: 'FAILED', result: null, failure, usage: end.usage, failingPosition };
    if (!end.treeGone || body.parent === null) return outcome;
    // Death is an answer (sandbox.md, The design, 7): recorded as this step's failure, and the caller is replayed.
    await this.#commitEnd(body, outcome);
    this.stop({ type: 'cell-gone', lost: false, deepest: body });
    return null;
  }

  /** What a body left out that returned too early (D7). */
  async #leftOver({ path, calls }: Body): Promise<string> {
    const left = this.journal.from(path, calls);
    const withArgs = async (record: JournalRecord) => ({ ...record, args: (await this.journal.values(record)).args });
    const before = this.journal.at(path, left[0]!.position - 1);
    const [first, after] = [await withArgs(left[0]!), before ? await withArgs(before) : null];
    return leftOverMessage(path, calls, left.length, first, after) + clockHint(this.journal.of(path));
  }

  /** Whether a body is still making calls that an earlier run of it has made: its lines are written already (D14). */
  #replaying(body: Body): boolean {
    return this.journal.at(body.path, body.calls) !== undefined;
  }

  /**
   * One body's recorded calls are handled first in, first out (D5). An unrecorded one comes in its turn, too, for the
   * sake of its log lines, but nothing waits for its answer.
   */
  #onCall(body: Body, call: HostCall): Promise<HostAnswer> {
    const admitted = body.pending.then(() => this.#admit(body, call));
    const answer = admitted.then(async (ok) => {
      if (this.#endingAt?.body === body) return this.endAtCall(body, this.#endingAt.failure);
      return (ok && (await handleCall(this, body, call))) || never;
    });
    const safe = answer.catch((error: unknown): HostAnswer => {
      this.stop({ type: 'broken', cause: error });
      return never;
    });
    const taken = call.position === null ? Promise.allSettled([admitted]) : safe;
    body.pending = taken.then(() => undefined);
    return safe;
  }

  /** Takes a call in. @returns whether it is to be handled: the tree has not ended. */
  #admit(body: Body, call: HostCall): boolean {
    if (!this.stopped && !this.run.context.leaseValid()) this.stop({ type: 'abandoned' });
    if (this.stopped) return false;
    if (!this.#replaying(body)) this.log.add(body.path, body.ran!.run, call.logs);
    if (call.position !== null) body.calls = Math.max(body.calls, call.position + 1);
    return true;
  }

  async #commitEnd(body: Body, end: BodyOutcome): Promise<JournalRecord> {
    const { execution, context } = this.run;
    const error = end.failure ? JSON.stringify(end.failure) : null;
    const { status, result, usage, failingPosition } = end;
    await context.writer.end({
      ...claimOf(execution),
      stack: stackOf(body.parent),
      path: body.path,
      run: body.ran!.run,
      status,
      result,
      error,
      usage,
      failingPosition,
      logs: this.log.take(),
    });
    const { functionVersion, runs } = this.journal.get(body.path)!;
    return this.#putRecord(body, { status, result, error, functionVersion, runs, failingPosition });
  }

  #putRecord(
    body: Body,
    state: Pick<JournalRecord, 'status' | 'functionVersion' | 'runs' | 'failingPosition'> & Omit<RecordValues, 'args'>,
  ): JournalRecord {
    const { result, error, ...rest } = state;
    const { path, call, parent } = body;
    // What it was recorded with stays when it is run again.
    const { recordedRun, clock } = this.journal.get(path) ?? call;
    const values = { args: call.args, result, error };
    const made = {
      path,
      parentPath: parent?.path ?? '',
      position: call.position,
      kind: 'job' as const,
      name: call.name,
    };
    const record = { ...made, recordedRun, clock, ...rest, values, bytes: valueBytes(values) };
    this.journal.put(record);
    return record;
  }
}

/** How a body ended, before it is committed. */
interface BodyOutcome extends Pick<Finish, 'status' | 'result' | 'failure'> {
  usage: Usage | null;
  failingPosition: number | null;
}

/** A body that could not be started. */
const failed = (failure: Failure): BodyOutcome => ({
  status: 'FAILED',
  result: null,
  failure,
  usage: null,
  failingPosition: null,
});

/** The answer to a call of a tree that has ended; the cell has dropped it and passes on nothing. */
const never: HostAnswer = { error: { name: 'Error', message: 'the run has ended', stack: '' } };

function mainBody({ execution }: Run): Body {
  const { mainJobFunction: name, args } = execution;
  return {
    path: name,
    stackedName: name,
    call: { kind: 'job', name, args, position: 0, executionPolicyKey: null, recordedRun: 1, clock: null },
    parent: null,
    frame: 1,
    keys: [],
    calls: 0,
    ran: null,
    pending: Promise.resolve(),
  };
}

/** The record of a call that runs no body and succeeded. */
export function finishedRecord(
  body: Body,
  call: MadeCall,
  { result = null, error = null }: Partial<Omit<RecordValues, 'args'>> = {},
): JournalRecord & { status: 'SUCCESS'; values: RecordValues } {
  const { position, kind, name, args, recordedRun, clock } = call;
  const values = { args, result, error };
  return {
    path: childPath(body.path, position, name),
    parentPath: body.path,
    position,
    kind,
    name,
    status: 'SUCCESS',
    functionVersion: null,
    runs: 0,
    recordedRun,
    clock,
    failingPosition: null,
    bytes: valueBytes(values),
    values,
  };
}

function claimOf({ workspaceId, executionId, fence }: Run['execution']) {
  return { workspaceId, executionId, fence };
}
