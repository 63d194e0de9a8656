import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import { uuidv7 } from 'uuidv7';
import { JobcellError } from '../errors.ts';
import type { HostOperations } from '../globals/host-operations.ts';
import { limits } from '../limits.ts';
import type { BodyLimits, BodyType, LogLine, ScriptSource, Usage } from '../sandbox/protocol.ts';
import type { BodyEnd, BodyRequest, CellLease, Sandbox } from '../sandbox/sandbox.ts';
import type { Pool } from '../store/database.ts';
import { type FunctionRecord, failOrphanedFunctions, storedJson } from '../store/function-executions.ts';
import { Scripts } from '../store/script-cache.ts';
import { deletedByForce } from '../store/workspaces.ts';
import { Admission } from './admission.ts';
import { answerCall, type StartWorkflow } from './calls.ts';
import { type Interruption, type Invoked, invalidScript, type Outcome, outcomeOf, unknownUsage } from './invocation.ts';
import { createRecorder } from './recorder.ts';
import { RunningFunctions } from './running.ts';

export interface FunctionServiceOptions {
  pool: Pool;
  sandbox: Sandbox;
  hostOperations: HostOperations;
  logger: Logger;
  startWorkflow: StartWorkflow;
  /** This server's lease, which RUNNING rows name (D1). */
  serverId: () => string;
  /** CPU time of a function, and of a test run of a job function's script, ms. */
  functionCpuMs: number;
  jobFunctionCpuMs: number;
}

interface Request {
  workspaceId: string;
  /** JSON texts. */
  args: string;
  invoker: string | null;
  /** The request's: when its client is gone, the run is ended. */
  signal: AbortSignal;
}

interface Running extends Request {
  /** Aborts when its workspace is being deleted (D31). */
  ended: AbortSignal;
}

/**
 * Functions: short scripts that run at once, in a fresh isolate, and answer the one who asks (http-api.md, "Functions").
 * No journal stands behind them, so nothing of them is ever run again by the server.
 *
 * Both ways reject with JobcellError OVERLOADED when there is no cell in time, and CONFLICT when the workspace is deleted
 * meanwhile: nothing has run then, and no function execution is stored.
 */
export interface FunctionService {
  /** Runs the function as it stands at the workspace's revision. @throws JobcellError NOT_FOUND, OVERLOADED */
  invoke(request: Request & { name: string; revision: number }): Promise<Invoked>;
  /** Runs a script that is not stored, under the limits of `type`. @throws JobcellError OVERLOADED */
  testRun(request: Request & { script: string; type: BodyType }): Promise<Invoked>;
  /** Resolves when everything that ended so far can be read from the database. */
  written(): Promise<void>;
  /** D30: what runs may end until the end of the grace; then it is ended, and answered as UNAVAILABLE. */
  stop(): Promise<void>;
}

/** What runs in the cell of an invocation. */
interface Target {
  name: string | null;
  version: number | null;
  type: BodyType;
  /** The script's source; checked in the cell first where that was not done before. */
  prepare(lease: CellLease): Promise<Outcome | Pick<BodyRequest, 'script' | 'loadSource' | 'loadSourceMap'>>;
}

/** An invocation that takes longer than this is seen as RUNNING meanwhile, ms; a row at the start of each would cost more than most runs. */
const longRunMs = 1_000;
/** D30: of the 10 s a stop may take, what functions that run get; the rest is for ending them and everything else, ms. */
const stopGraceMs = 6_000;
/** For the last records at a stop, ms. */
const drainMs = 1_500;
/** Between looks for deleted workspaces while functions run, ms (D31). */
const watchMs = 1_000;
/** Between looks for RUNNING rows of servers that are gone, ms. */
const sweepMs = 30_000;

export function createFunctionService(options: FunctionServiceOptions): FunctionService {
  const { pool, sandbox, hostOperations, logger } = options;
  const scripts = new Scripts(pool, 'STANDARD');
  const admission = new Admission();
  const recorder = createRecorder(pool, logger);
  const running = new RunningFunctions();
  const stopping = new AbortController();
  const watcher = setInterval(watch, watchMs);
  const sweeper = setInterval(sweep, sweepMs);
  sweep();

  /** D31: asked of the database, so that no message can be missed, and by every server. */
  function watch(): void {
    const workspaces = running.workspaces();
    if (workspaces.length === 0) return;
    deletedByForce(pool, workspaces).then(
      (deleted) => {
        for (const id of deleted) running.end(id, workspaceDeleted());
      },
      (error: unknown) => logger.warn({ err: error }, 'could not look for workspaces that are being deleted'),
    );
  }

  function sweep(): void {
    failOrphanedFunctions(pool).then(
      (ended) => {
        if (ended > 0) logger.warn({ ended }, 'functions that ran on a server that is gone are marked as failed');
      },
      (error: unknown) => logger.warn({ err: error }, 'could not look for functions of servers that are gone'),
    );
  }

  const limitsOf: Record<BodyType, BodyLimits> = {
    STANDARD: { memoryMb: limits.functionMemoryMb, cpuMs: options.functionCpuMs, wallMs: limits.functionWallMs },
    JOB: { memoryMb: limits.jobFunctionMemoryMb, cpuMs: options.jobFunctionCpuMs, wallMs: limits.jobFunctionWallMs },
  };

  async function run(target: Target, request: Running, bytes: number): Promise<Invoked> {
    const { workspaceId } = request;
    const executionId = uuidv7();
    const arrived = performance.now();
    const signal = AbortSignal.any([request.signal, request.ended, stopping.signal]);
    const lease = await admission.enter(workspaceId, bytes, () =>
      sandbox.acquire({ workspaceId, reserve: true, waitMs: limits.functionQueueMs, signal }),
    );
    const started = performance.now();
    const record = (status: FunctionRecord['status'], more: Partial<FunctionRecord> = {}): FunctionRecord => {
      const at = performance.now();
      return {
        workspaceId,
        id: executionId,
        name: target.name,
        version: target.version,
        type: target.type,
        status,
        args: storedJson(request.args),
        result: null,
        error: null,
        usage: null,
        memoryLimitBytes: limitsOf[target.type].memoryMb * 1024 * 1024,
        queueMs: started - arrived,
        runMs: at - started,
        at,
        holder: options.serverId(),
        logs: [],
        ...more,
      };
    };
    const long = setTimeout(() => void recorder.add(record('RUNNING')), longRunMs);
    const { outcome, logs, usage } = await runIn(lease, target, request, executionId, signal).finally(() =>
      clearTimeout(long),
    );
    const ended = record(outcome.status, {
      result: outcome.status === 'SUCCESS' ? storedJson(outcome.result) : null,
      error: outcome.status === 'FAILED' ? JSON.stringify(outcome.failure) : null,
      usage,
      logs,
    });
    await recorder.add(ended);
    return { ...outcome, executionId, logs, usage, queueMs: ended.queueMs, runMs: ended.runMs };
  }

  /** Runs it in the cell, and gives the cell back without making the answer wait for that. */
  async function runIn(lease: CellLease, target: Target, request: Running, executionId: string, signal: AbortSignal) {
    const { workspaceId, invoker, args } = request;
    const at = target.name ?? 'test-run';
    const bodyLimits = limitsOf[target.type];
    const logs: LogLine[] = [];
    let usage: Usage | undefined;
    let outcome: Outcome;
    let interruption: Interruption | undefined;
    const interrupt = () => {
      if (request.signal.aborted) interruption = 'client-gone';
      else interruption = request.ended.aborted ? 'workspace-deleted' : 'server-stops';
      void lease.drop();
    };
    const session = hostOperations.open(workspaceId);
    /** Ends what the script left under way. */
    const ended = new AbortController();
    const started = performance.now();
    signal.addEventListener('abort', interrupt, { once: true });
    try {
      if (signal.aborted) interrupt();
      const prepared = await target.prepare(lease);
      if ('status' in prepared) {
        outcome = interruption === undefined ? prepared : outcomeOf(dropped, at, interruption);
      } else {
        const end = await lease.run({
          ...prepared,
          label: at,
          type: target.type,
          args,
          context: `{"invoker":${invoker ?? 'null'}}`,
          limits: bodyLimits,
          // Nothing of a function is ever replayed, so its time and chance are real.
          replay: null,
          onCall: (call) => {
            logs.push(...call.logs);
            if (call.position === null) return session.handle(call, ended.signal);
            return answerCall(call, { workspaceId, invoker, executionId }, options);
          },
          onLogs: (lines) => logs.push(...lines),
        });
        logs.push(...end.logs);
        if (end.type !== 'gone') usage = end.usage;
        outcome = outcomeOf(end, at, interruption);
      }
    } finally {
      signal.removeEventListener('abort', interrupt);
      ended.abort();
      session.close();
      void lease.release();
    }
    return { outcome, logs, usage: usage ?? unknownUsage(bodyLimits, Math.round(performance.now() - started)) };
  }

  return {
    async invoke(request) {
      const { workspaceId, name, revision } = request;
      const script = await scripts.resolve(workspaceId, name, revision, undefined);
      if (script === null) {
        throw new JobcellError(
          'NOT_FOUND',
          `There is no function ${JSON.stringify(name)} in this workspace. Upload it, or correct the name.`,
        );
      }
      const { version, source, load, loadSourceMap } = script;
      const prepared = { script: source, loadSource: load, loadSourceMap };
      const target: Target = { name, version, type: 'STANDARD', prepare: () => Promise.resolve(prepared) };
      return running.add(workspaceId, (ended) => run(target, { ...request, ended }, request.args.length));
    },

    async testRun(request) {
      const { workspaceId, script, type } = request;
      const target: Target = {
        name: null,
        version: null,
        type,
        prepare: (lease) => prepareUnstored(lease, script, limitsOf[type].memoryMb),
      };
      const bytes = request.args.length + script.length;
      return running.add(workspaceId, (ended) => run(target, { ...request, ended }, bytes));
    },

    written: () => recorder.written(),

    async stop() {
      clearInterval(sweeper);
      clearInterval(watcher);
      const grace = new Promise<void>((resolve) => setTimeout(resolve, stopGraceMs).unref());
      let over = false;
      void grace.then(() => {
        over = true;
      });
      while (running.workspaces().length > 0 && !over) await Promise.race([grace, running.settled()]);
      stopping.abort(new JobcellError('UNAVAILABLE', 'The server stops; send the request to another one, or later.'));
      await running.settled();
      await recorder.drain(drainMs);
    },
  };
}

const workspaceDeleted = () =>
  new JobcellError('CONFLICT', 'The workspace is being deleted; the function was not started.');

const dropped: BodyEnd = { type: 'gone', lost: false, logs: [] };

/** A script that is not stored was never checked: that happens in the same cell, right before its run. */
async function prepareUnstored(lease: CellLease, text: string, memoryMb: number): ReturnType<Target['prepare']> {
  const check = await lease.check(text, memoryMb);
  if (!check.ok) return invalidScript(check, 'test-run');
  const hash = createHash('sha256').update(text).digest('hex');
  const script: ScriptSource = { hash, format: check.format, fileName: 'test-run.js' };
  return { script, loadSource: () => Promise.resolve(text), loadSourceMap: () => Promise.resolve(null) };
}
