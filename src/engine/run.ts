import type { Logger } from 'pino';
import type { HostOperations } from '../globals/host-operations.ts';
import { limits } from '../limits.ts';
import type { Usage } from '../sandbox/protocol.ts';
import type { CellLease, Sandbox } from '../sandbox/sandbox.ts';
import { ClaimLostError } from '../store/claim-lost.ts';
import type { ClaimedExecution } from '../store/claims.ts';
import { untilConnected } from '../store/connection-errors.ts';
import type { Pool, Queryable } from '../store/database.ts';
import { type ExecutionEnd, finishExecution, scheduleRetry } from '../store/executions.ts';
import { loadJournal, loadValues, type RecordValues } from '../store/journal.ts';
import { endResumed, errorBeforeResume } from '../store/resume-undo.ts';
import type { Scripts } from '../store/script-cache.ts';
import { suspendExecution } from '../store/slots.ts';
import type { StepWriter } from '../store/step-writer.ts';
import type { Stack } from '../store/steps.ts';
import { failedPath } from './failed-path.ts';
import { engineFailure, type Failure, withPreviousError } from './failures.ts';
import { Journal } from './journal.ts';
import { retryBackoffMs } from './retry.ts';
import { RunLog } from './run-log.ts';
import { Tree, type TreeEnd } from './tree.ts';

/** What a run needs of the server it runs on. */
export interface RunContext {
  pool: Pool;
  sandbox: Sandbox;
  hostOperations: HostOperations;
  writer: StepWriter;
  scripts: Scripts;
  /** CPU time of one dispatch, ms. */
  jobFunctionCpuMs: number;
  logger: Logger;
  /** Another attempt is due in so many ms. */
  onRetryScheduled: (ms: number) => void;
  /** Whether this server's lease still stands (D4): checked before a call of a script is acted on. */
  leaseValid: () => boolean;
}

/**
 * One claimed execution on this server: from the claim to its end, or to the loss of the claim.
 *
 * The bodies live in a `Tree` inside one cell. When a tree ends before the execution does (a replay was asked for, its
 * cell died), the next one is grown from the journal, which alone is the truth.
 */
export class Run {
  readonly execution: ClaimedExecution;
  readonly context: RunContext;
  readonly #abort = new AbortController();
  #tree: Tree | undefined;
  /** D23: how often the cell was lost under a path, through nobody's fault. */
  readonly #losses = new Map<string, number>();
  #cellDeaths = 0;

  constructor(context: RunContext, execution: ClaimedExecution) {
    this.context = context;
    this.execution = execution;
  }

  /**
   * Ends the run here and now without a write: its claim is lost, or about to be given back. Resolves when nothing of it
   * is left in its cell.
   */
  async abandon(): Promise<void> {
    this.#abort.abort();
    this.#tree?.stop({ type: 'abandoned' });
    await this.#tree?.dropped();
  }

  /** Runs the execution until it ends, waits, or is to be tried again. @returns whether it is final now. Never rejects. */
  async drive(): Promise<boolean> {
    const { logger } = this.context;
    const { executionId } = this.execution;
    try {
      const { records, lastLogId } = this.execution.hasJournal
        ? await untilConnected(
            () => loadJournal(this.context.pool, this.execution, limits.journalKeptBytes),
            this.#abort.signal,
          )
        : { records: [], lastLogId: 0 };
      const log = this.#openLog(lastLogId);
      try {
        return await this.#driveTrees(new Journal(records, (path) => this.#loadValues(path)), log);
      } finally {
        await log.close();
      }
    } catch (error) {
      if (error instanceof ClaimLostError || this.#abort.signal.aborted) {
        logger.info({ executionId }, 'stopped a run whose claim is gone');
        return false;
      }
      return this.#failForOurFault(error);
    }
  }

  #loadValues(path: string): Promise<RecordValues> {
    return untilConnected(() => loadValues(this.context.pool, this.execution, path), this.#abort.signal);
  }

  #openLog(lastId: number): RunLog {
    const { pool, logger } = this.context;
    return new RunLog({ pool, claim: this.execution, logger, lastId, signal: this.#abort.signal });
  }

  async #driveTrees(journal: Journal, log: RunLog): Promise<boolean> {
    if (this.execution.takeovers >= limits.takeoversWithoutProgress) {
      return this.#finish(log, this.#crashLoop(`${this.execution.takeovers} servers in a row ended while they ran it`));
    }
    let cell: CellLease | undefined;
    try {
      for (;;) {
        cell ??= await this.context.sandbox.acquire({
          workspaceId: this.execution.workspaceId,
          signal: this.#abort.signal,
        });
        this.#abort.signal.throwIfAborted();
        this.#tree = new Tree(this, cell, journal, log);
        const end = await this.#tree.grow();
        this.#abort.signal.throwIfAborted();
        if (end.type === 'finished') return await this.#end(journal, log, end);
        if (end.type === 'parked') return false;
        if (end.type === 'blocked' && !(await this.#takeOrSuspend(end.stack))) return false;
        if (end.type === 'cell-gone') {
          await cell.release();
          cell = undefined;
          const failure = await this.#afterCellDeath(this.#tree, end);
          if (failure) return await this.#end(journal, log, failure);
        }
      }
    } finally {
      this.#tree = undefined;
      await cell?.release();
    }
  }

  /**
   * D21: now that nothing of the tree is left in the cell, takes all that its stack needs, or gives back what it holds.
   * @returns whether the run goes on. @throws ClaimLostError
   */
  async #takeOrSuspend(stack: Stack): Promise<boolean> {
    const { execution, context } = this;
    const outcome = await untilConnected(() => suspendExecution(context.pool, execution, stack), this.#abort.signal);
    if (outcome === null) throw new ClaimLostError(execution.executionId);
    return outcome === 'taken';
  }

  /** Ends the attempt: the execution is tried again if its retryPolicy says so, or has come to its end. */
  async #end(journal: Journal, log: RunLog, end: Finish): Promise<boolean> {
    const { execution, context } = this;
    const backoffMs = end.failure ? retryBackoffMs(execution.retryPolicy, execution.retryCount, end.failure) : null;
    if (backoffMs === null) return this.#finish(log, end);
    const { workspaceId, executionId, fence, mainJobFunction } = execution;
    // Main failed, though that is not committed: its path starts with it.
    const main = journal.get(mainJobFunction);
    if (main && end.main) journal.put({ ...main, status: 'FAILED', failingPosition: end.main.failingPosition });
    const retry = {
      workspaceId,
      executionId,
      fence,
      error: JSON.stringify(end.failure),
      backoffMs,
      paths: failedPath(journal.all(), mainJobFunction),
      logs: log.take(),
    };
    await this.#endAttempt('stands', (db) => scheduleRetry(db, retry));
    context.onRetryScheduled(backoffMs);
    return false;
  }

  /** D23, D24: counts what a cell's death counts, and ends what dies again and again. */
  async #afterCellDeath(tree: Tree, end: TreeEnd & { type: 'cell-gone' }): Promise<Finish | undefined> {
    this.#cellDeaths++;
    if (this.#cellDeaths >= limits.cellDeathsPerAttempt) {
      return this.#crashLoop(`${this.#cellDeaths} sandbox processes died under it in one attempt`);
    }
    if (!end.lost) return undefined;
    const body = end.deepest;
    const losses = (this.#losses.get(body.path) ?? 0) + 1;
    this.#losses.set(body.path, losses);
    if (losses <= limits.cellLossesPerStep) return undefined;
    const failure = engineFailure(
      'CELL_LOST',
      `The sandbox process of ${body.stackedName} was ended from outside ${losses} times in a row, by the system's ` +
        'out-of-memory killer or by hand. Look at the memory of the machine and its kernel log, then resume the execution.',
      'PLATFORM',
      body.stackedName,
    );
    if (body.parent === null) return { status: 'FAILED', result: null, failure, main: body.ran };
    await tree.commitFailure(body, failure);
    return undefined;
  }

  #crashLoop(what: string): Finish {
    const at = this.execution.mainJobFunction;
    const failure = engineFailure(
      'CRASH_LOOP',
      `The execution was given up: ${what}. The steps that finished are kept; look at what the running one does, then resume.`,
      'PLATFORM',
      at,
    );
    return { status: 'FAILED', result: null, failure, main: null };
  }

  async #finish(log: RunLog, end: Finish): Promise<boolean> {
    const { workspaceId, executionId, fence } = this.execution;
    const { status, result, failure, main } = end;
    const mismatch = failure?.code === 'ARGUMENT_MISMATCH';
    const shown = mismatch ? withPreviousError(failure, await this.#errorBefore()) : failure;
    const error = shown ? JSON.stringify(shown) : null;
    const finish: ExecutionEnd = { workspaceId, executionId, fence, status, result, error, main, logs: log.take() };
    await this.#endAttempt(mismatch ? 'undo' : 'stands', (db) => finishExecution(db, finish));
    return true;
  }

  /** Commits the end of this attempt, and what becomes of the resume that began it (D8). */
  #endAttempt(resume: 'undo' | 'stands', commit: (db: Queryable) => Promise<void>): Promise<void> {
    const { pool } = this.context;
    // The first attempt was begun by no resume (D27).
    const write =
      this.execution.attempt === 1 ? () => commit(pool) : () => endResumed(pool, this.execution, resume, commit);
    return untilConnected(write, this.#abort.signal);
  }

  #errorBefore(): Promise<string | null> {
    return untilConnected(() => errorBeforeResume(this.context.pool, this.execution), this.#abort.signal);
  }

  /** An error that no rule provides for: the execution fails visibly, as the platform's, instead of hanging. */
  async #failForOurFault(error: unknown): Promise<boolean> {
    const { executionId, mainJobFunction } = this.execution;
    this.context.logger.error({ err: error, executionId }, 'a run failed for a reason of the server');
    const message = 'jobcell failed while it ran this execution; the server log has the cause under the execution id.';
    const failure = engineFailure('INTERNAL', message, 'PLATFORM', mainJobFunction);
    const log = this.#openLog(0);
    try {
      return await this.#finish(log, { status: 'FAILED', result: null, failure, main: null });
    } catch (second) {
      // The next reconciliation gives the claim back (engine.ts).
      this.context.logger.error({ err: second, executionId }, 'could not record that failure');
      return false;
    }
  }
}

/** How an execution ends. */
export interface Finish {
  status: 'SUCCESS' | 'FAILED';
  /** JSON text. */
  result: string | null;
  failure: Failure | null;
  /** The main body's run, where it ran. */
  main: { path: string; run: number; usage: Usage | null; failingPosition: number | null } | null;
}
