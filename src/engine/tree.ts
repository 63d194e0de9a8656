import { uuidv7 } from 'uuidv7';
import { limits } from '../limits.ts';
import type { HostAnswer, HostCall, ScriptError, Usage } from '../sandbox/protocol.ts';
import type { BodyEnd, CellLease } from '../sandbox/sandbox.ts';
import { untilConnected } from '../store/connection-errors.ts';
import { type JournalRecord, recordFailure } from '../store/journal.ts';
import type { LogRow } from '../store/steps.ts';
import { type Body, childPath } from './body.ts';
import { handleCall } from './calls.ts';
import { bodyFailure, engineFailure, type Failure } from './failures.ts';
import type { Journal } from './journal.ts';
import { type Call, leftOverMessage } from './replay.ts';
import type { Finish, Run } from './run.ts';
import type { RunLog } from './run-log.ts';

/** How a tree ended. */
export type TreeEnd =
  /** The execution has come to its end, which is yet to be committed. */
  | ({ type: 'finished' } & Finish)
  /** Grow another one from the journal, in the same cell. */
  | { type: 'again' }
  /** The cell is dead: grow another one in a new cell. `lost`: through nobody's fault (D23). */
  | { type: 'cell-gone'; lost: boolean; deepest: Body };

/**
 * The bodies of one run in one cell: main, and under it whatever is called. A stack runs one body at a time; the
 * others are blocked in a call (architecture.md, "Deciding points").
 *
 * A tree decides its end once, in `#end`: by main's return, or earlier when a replay is asked for, a replay does not
 * match, or the claim is lost. Then everything in the cell is dropped and no call is answered any more, so that no
 * `catch` of a script can turn such an end into a result (behaviour.md 3).
 */
export class Tree {
  readonly run: Run;
  readonly journal: Journal;
  readonly log: RunLog;
  readonly #cell: CellLease;
  #end: TreeEnd | { type: 'abandoned' } | { type: 'broken'; cause: unknown } | undefined;
  #dropped: Promise<void> | undefined;
  #deepest: Body | undefined;

  constructor(run: Run, cell: CellLease, journal: Journal, log: RunLog) {
    this.run = run;
    this.journal = journal;
    this.log = log;
    this.#cell = cell;
  }

  /** Runs main. @throws ClaimLostError, and what the database or the sandbox broke with. */
  async grow(): Promise<TreeEnd> {
    const { mainJobFunction: name, args } = this.run.execution;
    const main: Body = {
      path: name,
      stackedName: name,
      name,
      args,
      parent: null,
      position: 0,
      executionPolicyKey: null,
      frame: 1,
      calls: 0,
      ran: null,
      pending: Promise.resolve(),
    };
    this.#deepest = main;
    try {
      const end = await this.#runBody(main);
      if (end && !this.#end) this.#end = { type: 'finished', ...end, main: main.ran };
    } catch (error) {
      this.stop({ type: 'broken', cause: error });
    }
    await this.#dropped;
    const end = this.#end;
    if (end?.type === 'broken') throw end.cause;
    if (end === undefined || end.type === 'abandoned') throw new Error('the tree was abandoned');
    return end;
  }

  /** Ends the tree before main does. The first reason stands. */
  stop(end: TreeEnd | { type: 'broken'; cause: unknown } | { type: 'abandoned' }): void {
    if (this.#end) return;
    this.#end = end;
    this.#dropped = this.#cell.drop();
  }

  abandon(): void {
    this.stop({ type: 'abandoned' });
  }

  get stopped(): boolean {
    return this.#end !== undefined;
  }

  /** Fails the execution at once, whatever its bodies would do: a replay that does not match (D8), a limit of the engine. */
  failExecution(failure: Failure): void {
    this.stop({ type: 'finished', status: 'FAILED', result: null, failure, main: null });
  }

  /**
   * Runs a job function as a child of `parent` and commits its end.
   * @returns its record, or null when the tree has ended.
   */
  async runChild(
    parent: Body,
    position: number,
    call: Call,
    executionPolicyKey: string | null,
  ): Promise<JournalRecord | null> {
    const child: Body = {
      path: childPath(parent.path, position, call.name),
      stackedName: `${parent.stackedName}/${call.name}`,
      name: call.name,
      args: call.args,
      parent,
      position,
      executionPolicyKey,
      frame: parent.frame + 1,
      calls: 0,
      ran: null,
      pending: Promise.resolve(),
    };
    if (child.frame > limits.stackFrames) {
      return this.refuseCall(parent, position, call, executionPolicyKey, stackLimitFailure(child));
    }
    this.#deepest = child;
    const end = await this.#runBody(child);
    if (!end) return null;
    if (child.ran === null) return this.refuseCall(parent, position, call, executionPolicyKey, end.failure!);
    await this.#commitEnd(child, end);
    this.#deepest = parent;
    return this.journal.get(child.path)!;
  }

  /** Records a call that failed before it had any effect (D6), and answers it with that failure from then on. */
  async refuseCall(
    body: Body,
    position: number,
    call: Call,
    executionPolicyKey: string | null,
    failure: Failure,
  ): Promise<JournalRecord> {
    const record: JournalRecord = {
      path: childPath(body.path, position, call.name),
      parentPath: body.path,
      position,
      ...call,
      status: 'FAILED',
      result: null,
      error: JSON.stringify(failure),
      functionVersion: null,
      runs: 0,
    };
    const logs = this.log.take();
    await untilConnected(() =>
      recordFailure(this.run.context.pool, {
        ...this.run.execution,
        ...record,
        status: 'FAILED',
        id: uuidv7(),
        executionPolicyKey,
        logs,
      }),
    );
    this.journal.put(record);
    return record;
  }

  /** Commits that a body failed although it did not end by itself (D23). */
  async commitFailure(body: Body, failure: Failure, usage: Usage | null): Promise<void> {
    await this.#commitEnd(body, { status: 'FAILED', result: null, failure, usage });
  }

  /** Runs one body and commits its start. @returns how it ended, not yet committed; null when the tree has ended. */
  async #runBody(body: Body): Promise<BodyOutcome | null> {
    const { execution, context } = this.run;
    const { workspaceId, revision, jobFunctions, invoker } = execution;
    const script = await context.scripts.resolve(workspaceId, body.name, revision, jobFunctions[body.name]);
    if (!script) return { status: 'FAILED', result: null, failure: unknownJobFailure(body), usage: null };
    if (this.stopped) return null;

    const run = (this.journal.get(body.path)?.runs ?? 0) + 1;
    const memoryMb = limits.jobFunctionMemoryMb;
    await context.writer.start({
      ...claimOf(execution),
      path: body.path,
      parentPath: body.parent?.path ?? '',
      position: body.position,
      id: uuidv7(),
      name: body.name,
      args: body.args,
      executionPolicyKey: body.executionPolicyKey,
      functionVersion: script.version,
      memoryLimitBytes: memoryMb * 1024 * 1024,
      run,
      logs: this.log.take(),
    });
    body.ran = { path: body.path, run, usage: null };
    this.#putRecord(body, { status: 'RUNNING', result: null, error: null, functionVersion: script.version, runs: run });
    if (this.stopped) return null;

    const end = await this.#cell.run({
      label: body.stackedName,
      type: 'JOB',
      script: script.source,
      loadSource: script.load,
      loadSourceMap: script.loadSourceMap,
      args: body.args,
      context: `{"invoker":${invoker ?? 'null'}}`,
      limits: { memoryMb, cpuMs: context.jobFunctionCpuMs, wallMs: limits.jobFunctionWallMs },
      onCall: (call) => this.#onCall(body, call),
      onLogs: (lines) => {
        if (!this.#replaying(body)) this.log.add(body.path, run, lines);
      },
    });
    return this.#bodyEnded(body, end);
  }

  async #bodyEnded(body: Body, end: BodyEnd): Promise<BodyOutcome | null> {
    // Calls it made without waiting for their answers are handled before its end is committed (D5).
    await body.pending;
    if (this.stopped) return null;
    if (end.type === 'gone') {
      this.stop({ type: 'cell-gone', lost: end.lost, deepest: this.#deepest! });
      return null;
    }
    if (!this.#replaying(body)) this.log.add(body.path, body.ran!.run, end.logs);
    body.ran!.usage = end.usage;
    if (end.type === 'returned') {
      const left = this.journal.from(body.path, body.calls);
      if (left.length > 0) {
        this.failExecution(this.mismatch(body, leftOverMessage(body.path, left)));
        return null;
      }
      return { status: 'SUCCESS', result: end.result, failure: null, usage: end.usage };
    }
    const failedCall = end.failingPosition === null ? undefined : this.journal.at(body.path, end.failingPosition);
    const origin = failedCall?.error ? (JSON.parse(failedCall.error) as Failure) : undefined;
    const outcome: BodyOutcome = {
      status: 'FAILED',
      result: null,
      failure: bodyFailure(end.error, body.stackedName, origin),
      usage: end.usage,
    };
    if (!end.treeGone || body.parent === null) return outcome;
    // Death is an answer (sandbox.md, The design, 7): recorded as this step's failure, and the caller is replayed.
    await this.#commitEnd(body, outcome);
    this.stop({ type: 'cell-gone', lost: false, deepest: body });
    return null;
  }

  /** Whether a body is still making calls that an earlier run of it has made: its lines are written already (D14). */
  #replaying(body: Body): boolean {
    return this.journal.at(body.path, body.calls) !== undefined;
  }

  mismatch(body: Body, message: string): Failure {
    return engineFailure('ARGUMENT_MISMATCH', message, 'USER_RUNTIME', body.stackedName);
  }

  /** One body's recorded calls are handled first in, first out (D5). */
  #onCall(body: Body, call: HostCall): Promise<HostAnswer> {
    const answer = body.pending.then(async (): Promise<HostAnswer> => {
      if (!this.stopped && !this.run.context.leaseValid()) this.abandon();
      if (this.stopped) return never;
      if (!this.#replaying(body)) this.log.add(body.path, body.ran!.run, call.logs);
      if (call.position !== null) body.calls = call.position + 1;
      return (await handleCall(this, body, call)) ?? never;
    });
    const safe = answer.catch((error: unknown): HostAnswer => {
      this.stop({ type: 'broken', cause: error });
      return never;
    });
    body.pending = safe.then(() => undefined);
    return safe;
  }

  async #commitEnd(body: Body, end: BodyOutcome): Promise<void> {
    const { execution, context } = this.run;
    const error = end.failure ? JSON.stringify(end.failure) : null;
    const { status, result, usage } = end;
    const logs: LogRow[] = this.log.take();
    await context.writer.end({
      ...claimOf(execution),
      path: body.path,
      run: body.ran!.run,
      status,
      result,
      error,
      usage,
      logs,
    });
    const { functionVersion, runs } = this.journal.get(body.path)!;
    this.#putRecord(body, { status, result, error, functionVersion, runs });
  }

  #putRecord(body: Body, state: Pick<JournalRecord, 'status' | 'result' | 'error' | 'functionVersion' | 'runs'>): void {
    const { path, position, name, args, parent } = body;
    this.journal.put({ path, parentPath: parent?.path ?? '', position, kind: 'job', name, args, ...state });
  }
}

/** How a body ended, before it is committed. */
interface BodyOutcome extends Pick<Finish, 'status' | 'result' | 'failure'> {
  usage: Usage | null;
}

/** The answer to a call of a tree that has ended; the cell has dropped it and passes on nothing. */
const never: HostAnswer = { error: { name: 'Error', message: 'the run has ended', stack: '' } satisfies ScriptError };

function claimOf({ workspaceId, executionId, fence }: Run['execution']) {
  return { workspaceId, executionId, fence };
}

function unknownJobFailure(body: Body): Failure {
  const call = body.parent ? 'execJobFunction failed: ' : '';
  const message =
    `${call}there is no job function ${JSON.stringify(body.name)} in this workspace. ` +
    'Upload it, or correct the name; names keep their case.';
  return engineFailure(
    'JOB_FUNCTION_NOT_FOUND',
    message,
    'USER_NON_RUNTIME',
    body.parent?.stackedName ?? body.stackedName,
  );
}

function stackLimitFailure(child: Body): Failure {
  const message =
    `execJobFunction failed: ${JSON.stringify(child.name)} would be number ${child.frame} on the stack ` +
    `${child.parent!.stackedName}; at most ${limits.stackFrames} job functions may be nested, the main one included. ` +
    'Start a workflow instead, or flatten the calls.';
  return engineFailure('STACK_LIMIT_EXCEEDED', message, 'USER_NON_RUNTIME', child.parent!.stackedName);
}
