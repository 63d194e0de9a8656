import type { Logger } from 'pino';
import { uuidv7 } from 'uuidv7';
import { JobcellError } from '../errors.ts';
import type { HostOperations } from '../globals/host-operations.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Pool } from '../store/database.ts';
import {
  type ClaimedExecution,
  claimExecutions,
  confirmStopped,
  finalPrefix,
  findByIdempotencyKey,
  insertExecution,
  isFinal,
  pendingMessage,
  stopPrefix,
} from '../store/executions.ts';
import { giveBack, heldBy } from '../store/holdings.ts';
import { listen } from '../store/notifications.ts';
import { Scripts } from '../store/script-cache.ts';
import { createStepWriter } from '../store/step-writer.ts';
import type { WaitKey } from '../store/waits.ts';
import { cancel } from './cancel.ts';
import { FinalWaiters } from './final-waiters.ts';
import { startHousekeeping } from './housekeeping.ts';
import { jsonTextEqual } from './json-equal.ts';
import { startLease } from './lease.ts';
import { resume } from './resume.ts';
import { Run, type RunContext } from './run.ts';
import { startScheduler } from './scheduler.ts';
import { newSeed } from './start-workflow.ts';
import { resolve } from './waits.ts';

/** setTimeout's limit, ms; what is due later is found by the tick. */
const longestTimerMs = 2 ** 31 - 1;

export interface EngineOptions {
  pool: Pool;
  databaseUrl: string;
  sandbox: Sandbox;
  hostOperations: HostOperations;
  logger: Logger;
  leaseMs: number;
  /** CPU time of one dispatch of a job function, ms. */
  jobFunctionCpuMs: number;
  /** What `replay` of an execution is when its start does not say (D15). */
  replay: 'auto' | 'always';
}

/** A request to start an execution; `args` and `invoker` are JSON texts. */
interface StartRequest {
  workspaceId: string;
  workflow: string;
  args: string;
  invoker: string | null;
  replay: 'auto' | 'always' | undefined;
  idempotencyKey: string | undefined;
  /** How deep it lies below a request of a person (D25); 0 by default. */
  depth?: number;
}

export interface Engine {
  /** The lease of this server as it is now (D1); changes when one was lost. */
  readonly serverId: string;
  /**
   * Starts an execution, or answers the one that the same idempotency key started before.
   * @throws JobcellError NOT_FOUND, IDEMPOTENCY_MISMATCH
   */
  start(request: StartRequest): Promise<{ executionId: string; created: boolean }>;
  /** Waits until an execution is in a final status. @returns whether it is, when `ms` have passed or the signal aborts. */
  waitForFinal(workspaceId: string, executionId: string, ms: number, signal: AbortSignal): Promise<boolean>;
  /** Resumes a FAILED, PENDING_RETRY or CANCELED execution (D8, D9, D28). @throws JobcellError NOT_FOUND, CONFLICT, BAD_REQUEST */
  resume(request: {
    workspaceId: string;
    executionId: string;
    code: 'latest' | 'pinned';
    from: string | undefined;
  }): Promise<void>;
  /** Cancels an execution that is not final (D29). @throws JobcellError NOT_FOUND, CONFLICT */
  cancel(workspaceId: string, executionId: string): Promise<void>;
  /** Resolves a wait with a result, JSON text (D11). @throws JobcellError NOT_WAITING, ALREADY_RESOLVED, BAD_REQUEST */
  resolveWait(wait: WaitKey, result: string): Promise<void>;
  /** Removes what is no longer kept now, instead of within a minute (D31, D32). */
  tidyUp(): void;
  /** D30: claims nothing more, drops its runs at their last record, and gives their claims back. */
  stop(): Promise<void>;
}

export async function startEngine(options: EngineOptions): Promise<Engine> {
  const { pool, sandbox, logger } = options;
  const waiters = new FinalWaiters();
  const runs = new Map<Run, Promise<unknown>>();

  const lease = await startLease({
    pool,
    databaseUrl: options.databaseUrl,
    logger,
    leaseMs: options.leaseMs,
    extendDeadline: (ms) => sandbox.extendDeadline(ms),
    onLost: async () => {
      await Promise.all([...runs.keys()].map((run) => run.abandon()));
    },
  });
  const context: RunContext = {
    pool,
    sandbox,
    hostOperations: options.hostOperations,
    writer: createStepWriter(pool),
    scripts: new Scripts(pool, 'JOB'),
    jobFunctionCpuMs: options.jobFunctionCpuMs,
    logger,
    leaseValid: lease.valid,
    onRetryScheduled: (ms) => wakeForRetry(ms),
  };

  /** The next tick would find it as well; this is for backoffs shorter than that. */
  const retryTimers = new Set<NodeJS.Timeout>();
  function wakeForRetry(ms: number): void {
    if (ms > longestTimerMs) return;
    const timer = setTimeout(() => {
      retryTimers.delete(timer);
      scheduler.nudge();
    }, ms);
    retryTimers.add(timer);
  }

  const scheduler = startScheduler({
    logger,
    room: () => (lease.valid() ? sandbox.free() : 0),
    claim,
    reconcile,
    run: (execution) => {
      const run = new Run(context, execution);
      const driven = run.drive().then(async (ended) => {
        // Its cells are gone: a resume of what was canceled under it need not wait for the lease (D29).
        if (!ended) await confirmStopped(pool, execution, lease.serverId).catch(warnOfStop);
        runs.delete(run);
        // At once here; the notification reaches the other servers.
        if (ended) waiters.reached(execution.executionId);
        scheduler.nudge();
      });
      runs.set(run, driven);
    },
  });
  sandbox.onFree(scheduler.nudge);

  /** An answer that comes after the lease it was asked under is not acted on (D4): the next takeover frees what it took. */
  async function claim(limit: number): Promise<ClaimedExecution[]> {
    const { serverId } = lease;
    const claimed = await claimExecutions(pool, serverId, limit);
    return lease.valid() && lease.serverId === serverId ? claimed : [];
  }

  /**
   * E6: what the database says this server holds and what it runs are made the same. They part when the answer to a claim
   * is lost, when a run could not even be failed, when a cancel's message was missed, or when its confirmation was (D29).
   */
  async function reconcile(): Promise<void> {
    const before = [...runs.keys()];
    const held = new Map((await heldBy(pool, lease.serverId)).map((holding) => [holding.id, holding]));
    const running = new Set([...runs.keys()].map((run) => run.execution.executionId));
    const orphans = [...held.keys()].filter((id) => !running.has(id));
    if (orphans.length > 0) {
      logger.warn({ executions: orphans }, 'gave back executions that this server held but did not run');
      await giveBack(pool, lease.serverId, orphans);
    }
    for (const run of before) {
      const holding = held.get(run.execution.executionId);
      if (!holding?.running || holding.fence !== run.execution.fence) void run.abandon();
    }
  }

  /** Ends the run of a canceled execution; a later run of it has a later fence, and is not meant. */
  function stopRun(message: string): void {
    const [executionId, fence] = message.split(':');
    for (const run of runs.keys()) {
      if (run.execution.executionId === executionId && run.execution.fence < Number(fence)) void run.abandon();
    }
  }
  function warnOfStop(error: unknown): void {
    logger.warn({ err: error }, 'could not confirm that a run has stopped; the next reconciliation does');
  }

  const notifications = await listen(options.databaseUrl, logger, {
    onMessage: (payload) => {
      if (payload === pendingMessage) scheduler.nudge();
      else if (payload.startsWith(stopPrefix)) stopRun(payload.slice(stopPrefix.length));
      else if (payload.startsWith(finalPrefix)) waiters.reached(payload.slice(finalPrefix.length));
    },
    onReconnect: () => {
      scheduler.nudge();
      waiters.reachedMaybe();
    },
  });
  scheduler.nudge();
  const housekeeping = startHousekeeping(pool, logger);

  return {
    get serverId() {
      return lease.serverId;
    },

    async start(request) {
      const executionId = uuidv7();
      const inserted = await insertExecution(pool, {
        ...request,
        id: executionId,
        depth: request.depth ?? 0,
        parent: null,
        replay: request.replay ?? options.replay,
        seed: newSeed(),
        idempotencyKey: request.idempotencyKey ?? null,
      });
      if (inserted === 'no-workflow') {
        throw new JobcellError(
          'NOT_FOUND',
          `There is no workflow ${JSON.stringify(request.workflow)} in this workspace. Create it, or correct the name.`,
        );
      }
      if (inserted === 'duplicate') return { executionId: await firstExecution(pool, request), created: false };
      scheduler.nudge();
      return { executionId, created: true };
    },

    async waitForFinal(workspaceId, executionId, ms, signal) {
      const deadline = performance.now() + ms;
      for (;;) {
        // Listening before looking: an end between the two is not missed.
        let remove = () => {};
        const reached = new Promise<void>((resolve) => {
          remove = waiters.add(executionId, resolve);
        });
        try {
          if ((await isFinal(pool, workspaceId, executionId)) !== false) return true;
          const left = deadline - performance.now();
          if (left <= 0 || signal.aborted) return false;
          await oneOf(reached, left, signal);
        } finally {
          remove();
        }
      }
    },

    resume: (request) => resume(pool, request),
    cancel: (workspaceId, executionId) => cancel(pool, workspaceId, executionId),
    resolveWait: (wait, result) => resolve(pool, wait, result),

    tidyUp: housekeeping.nudge,

    async stop() {
      await housekeeping.stop();
      for (const timer of retryTimers) clearTimeout(timer);
      await scheduler.stop();
      for (const run of runs.keys()) void run.abandon();
      await Promise.all(runs.values());
      await giveBack(pool, lease.serverId, null);
      await notifications.stop();
      await lease.stop();
    },
  };
}

/** The execution that an idempotency key was first used for. @throws JobcellError IDEMPOTENCY_MISMATCH */
async function firstExecution(pool: Pool, request: StartRequest): Promise<string> {
  const { workspaceId, workflow, idempotencyKey = '' } = request;
  const first = await findByIdempotencyKey(pool, { workspaceId, workflow, idempotencyKey });
  if (!first) throw new JobcellError('CONFLICT', 'The execution of this idempotency key was just deleted. Try again.');
  const sameInvoker = jsonTextEqual(first.invoker ?? 'null', request.invoker ?? 'null');
  if (sameInvoker && jsonTextEqual(first.args, request.args)) return first.id;
  throw new JobcellError(
    'IDEMPOTENCY_MISMATCH',
    `The idempotency key was used for execution ${first.id} of this workflow with ` +
      `${sameInvoker ? 'other arguments' : 'another invoker'}. Use a new key for a new request, or send the same one again.`,
  );
}

/** Resolves at the first of: the event, the time, the signal. */
async function oneOf(event: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
    onAbort = resolve;
    signal.addEventListener('abort', onAbort);
  });
  await Promise.race([event, limit]);
  clearTimeout(timer);
  signal.removeEventListener('abort', onAbort);
}
