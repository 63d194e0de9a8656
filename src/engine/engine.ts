import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { uuidv7 } from 'uuidv7';
import { JobcellError } from '../errors.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Pool } from '../store/database.ts';
import {
  claimExecutions,
  finalPrefix,
  findByIdempotencyKey,
  insertExecution,
  isFinal,
  pendingMessage,
  releaseClaim,
} from '../store/executions.ts';
import { listen } from '../store/notifications.ts';
import { Scripts } from '../store/script-cache.ts';
import { createStepWriter } from '../store/step-writer.ts';
import { seedBytes } from './calls.ts';
import { FinalWaiters } from './final-waiters.ts';
import { jsonTextEqual } from './json-equal.ts';
import { startLease } from './lease.ts';
import { Run, type RunContext } from './run.ts';
import { startScheduler } from './scheduler.ts';

export interface EngineOptions {
  pool: Pool;
  databaseUrl: string;
  sandbox: Sandbox;
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
  /** D30: claims nothing more, drops its runs at their last record, and gives their claims back. */
  stop(): Promise<void>;
}

export async function startEngine(options: EngineOptions): Promise<Engine> {
  const { pool, sandbox, logger } = options;
  const waiters = new FinalWaiters();
  const runs = new Map<Run, Promise<unknown>>();

  const lease = await startLease({
    pool,
    logger,
    leaseMs: options.leaseMs,
    extendDeadline: (ms) => sandbox.extendDeadline(ms),
    onLost: () => {
      for (const run of runs.keys()) run.abandon();
    },
  });
  const context: RunContext = {
    pool,
    sandbox,
    writer: createStepWriter(pool),
    scripts: new Scripts(pool, 'JOB'),
    jobFunctionCpuMs: options.jobFunctionCpuMs,
    logger,
    leaseValid: lease.valid,
  };

  const scheduler = startScheduler({
    logger,
    room: () => (lease.valid() ? sandbox.free() : 0),
    claim: (limit) => claimExecutions(pool, lease.serverId, limit),
    run: (execution) => {
      const run = new Run(context, execution);
      const driven = run.drive().then((ended) => {
        runs.delete(run);
        // At once here; the notification reaches the other servers.
        if (ended) waiters.reached(execution.executionId);
        scheduler.nudge();
      });
      runs.set(run, driven);
    },
  });
  sandbox.onFree(scheduler.nudge);

  const notifications = await listen(options.databaseUrl, logger, {
    onMessage: (payload) => {
      if (payload === pendingMessage) scheduler.nudge();
      else if (payload.startsWith(finalPrefix)) waiters.reached(payload.slice(finalPrefix.length));
    },
    onReconnect: () => {
      scheduler.nudge();
      waiters.reachedMaybe();
    },
  });
  scheduler.nudge();

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
        seed: randomBytes(seedBytes),
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

    async stop() {
      await scheduler.stop();
      const held = [...runs.entries()];
      for (const [run] of held) run.abandon();
      await Promise.all(held.map(([, driven]) => driven));
      await Promise.all(held.map(([run]) => releaseClaim(pool, run.execution)));
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
  if (jsonTextEqual(first.args, request.args) && first.invoker === request.invoker) return first.id;
  throw new JobcellError(
    'IDEMPOTENCY_MISMATCH',
    `The idempotency key was used for execution ${first.id} of this workflow with other arguments. ` +
      'Use a new key for a new request, or send the same arguments again.',
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
