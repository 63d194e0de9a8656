import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import { type BodyRun, startBodyRun } from './body-run.ts';
import { type CellExit, type CellProcess, forkCell } from './cell-process.ts';
import type { CellCgroups } from './cgroup.ts';
import { crashError, memoryLimitError } from './limit-errors.ts';
import { memoryBound } from './memory-bound.ts';
import type { Usage } from './protocol.ts';
import type { BodyEnd, BodyRequest, ScriptCheck } from './sandbox.ts';
import { type SeenUsage, trackUsage } from './seen-usage.ts';
import type { CodedError, FromCell } from './wire.ts';

/** V8 dies of these when a script drives it past what it can handle (D23). */
const scriptDeaths: ReadonlySet<string | null> = new Set(['SIGTRAP', 'SIGABRT', 'SIGILL', 'SIGSEGV', 'SIGBUS']);
/** What V8 and isolated-vm write when memory was the reason. */
const memoryDeath = /out of memory|out-of-memory|invalid size error|OOM|Allocation failed|is_heap_oom/;
/** A cell whose main thread says nothing for so long is stuck. */
const silenceMs = 5_000;
/** The kernel's bound lies over ours, so that it is met only by what our watchdogs are too late for. */
const cgroupSlack = 32 * 1024 * 1024;
const resetTimeoutMs = 1_000;
/** The number of a body that is only checked (`cell/main.ts`). */
const checkBody = 0;

/** One cell: its process, the run in it, and what becomes of the run when the process dies. */
export interface Cell {
  readonly pid: number;
  readonly ready: Promise<void>;
  readonly exited: Promise<CellExit>;
  readonly alive: boolean;
  readonly process: CellProcess;
  run(request: BodyRequest): Promise<BodyEnd>;
  check(source: string, memoryMb: number): Promise<ScriptCheck>;
  setDeadline(at: number): void;
  /** Ends every body as `gone`, and every isolate; false when the cell had to be killed for it. */
  reset(): Promise<boolean>;
  /** Kills the process and waits until it is gone; bodies end as `gone`. */
  kill(): Promise<void>;
  /** The watchdog's look at it. `now` in milliseconds of performance.now(). */
  watch(now: number): void;
}

type Over = Pick<Extract<FromCell, { t: 'over' }>, 'error' | 'usage' | 'graceMs'>;

/** Nobody's fault (D23): whoever asked for the check may ask another cell. */
const cellLost = () =>
  new JobcellError('CELL_LOST', 'The sandbox process that checked the script was ended from outside; try again.');

export function openCell(packageRoot: string, logger: Logger, cgroups?: CellCgroups): Cell {
  const ready = Promise.withResolvers<void>();
  // Whoever waits sees the rejection; a cell nobody waits for any more must not end the server.
  ready.promise.catch(() => {});
  const bodies: BodyRun[] = [];
  const over = new Map<number, Over>();
  const seen = new Map<number, SeenUsage>();
  let nextBody = 1;
  let checking: (PromiseWithResolvers<ScriptCheck> & { memoryMb: number }) | undefined;
  let resetting: PromiseWithResolvers<boolean> | undefined;
  /** Set when we kill it: the body it is about, and its error; without one nobody's. */
  let verdict: { body: number; error: CodedError } | 'ours' | undefined;
  let lastHeard = performance.now();

  const process = forkCell(packageRoot, receive);
  const cgroup = cgroups?.create(process.pid);
  const exited = process.exit.then((exit) => {
    died(exit);
    cgroup?.remove();
    return exit;
  });

  const bodyOf = (id: number) => bodies.find((body) => body.id === id);

  function receive(message: FromCell): void {
    lastHeard = performance.now();
    switch (message.t) {
      case 'ready':
        ready.resolve();
        break;
      case 'needSource':
        void deliverSource(message.hash, message.body);
        break;
      case 'needSourceMap':
        void deliverSourceMap(message.body);
        break;
      case 'call':
        bodyOf(message.body)?.call(message);
        break;
      case 'logs':
        bodyOf(message.body)?.logs(message.lines);
        break;
      case 'over':
        passedLimit(message.body, message);
        break;
      case 'end':
        over.delete(message.body);
        bodyOf(message.body)?.ended(message.end, message.logs, message.usage);
        break;
      case 'checked':
        over.delete(checkBody);
        checking?.resolve(message.check);
        break;
      case 'idle':
        resetting?.resolve(true);
        break;
      case 'beat':
        break;
    }
  }

  async function deliverSource(hash: string, id: number): Promise<void> {
    const text = await bodyOf(id)
      ?.request.loadSource()
      .catch((error: unknown) => {
        logger.error({ err: error, hash }, 'a script could not be loaded');
        return null;
      });
    process.send({ t: 'source', hash, text: text ?? null });
  }

  async function deliverSourceMap(id: number): Promise<void> {
    const text = await bodyOf(id)
      ?.request.loadSourceMap()
      .catch((error: unknown) => {
        logger.warn({ err: error }, 'a source map could not be loaded');
        return null;
      });
    process.send({ t: 'sourceMap', body: id, text: text ?? null });
  }

  /** The cell is ending an isolate that passed a limit. If it does not manage in time, the whole cell goes. */
  function passedLimit(id: number, { error, usage, graceMs }: Over): void {
    const passed = { error, usage, graceMs };
    over.set(id, passed);
    setTimeout(() => {
      if (over.get(id) === passed) killFor(id, error);
    }, graceMs);
  }

  function killFor(id: number, error: CodedError): void {
    verdict ??= { body: id, error };
    seen.get(id)?.look(Number.POSITIVE_INFINITY);
    process.kill();
  }

  /** Death is an answer (D23): whose failure it is, if anybody's. */
  function died(exit: CellExit): void {
    ready.reject(new Error(`A cell ended at its start (${exit.signal ?? exit.code}): ${exit.stderr}`));
    resetting?.resolve(false);
    const deepest = bodies.at(-1);
    // It killed itself, right after it said why.
    const last = over.get(deepest?.id ?? checkBody);
    if (last?.graceMs === 0) verdict ??= { body: deepest?.id ?? checkBody, error: last.error };
    if (deepest && cgroup?.killedForMemory()) {
      verdict ??= { body: deepest.id, error: memoryLimitError(deepest.request.limits, grownOf(deepest)) };
    }
    if (verdict === undefined && scriptDeaths.has(exit.signal) && deepest !== undefined) {
      verdict = { body: deepest.id, error: deathError(deepest, exit) };
    }
    if (verdict === undefined) logger.error({ ...exit, pid: process.pid }, 'a cell was lost');
    else if (verdict !== 'ours')
      logger.info({ pid: process.pid, body: labelOf(verdict.body), code: verdict.error.code }, 'a cell was ended');
    if (verdict === undefined && !over.has(checkBody) && !scriptDeaths.has(exit.signal)) checking?.reject(cellLost());
    else checking?.resolve(checkDied(exit));
    for (const body of bodies.toReversed()) {
      if (verdict !== undefined && verdict !== 'ours' && verdict.body === body.id)
        body.died(verdict.error, usageOf(body));
      else body.gone(verdict === undefined);
    }
    bodies.length = 0;
  }

  /** The most this process was seen to grow by since the body started. */
  const grownOf = (body: BodyRun) => seen.get(body.id)?.growth.peak ?? 0;
  const labelOf = (id: number) => bodyOf(id)?.request.label;

  function deathError(body: BodyRun, exit: CellExit): CodedError {
    const passed = over.get(body.id);
    if (passed !== undefined) return passed.error;
    if (memoryDeath.test(exit.stderr)) return memoryLimitError(body.request.limits, grownOf(body));
    return crashError(`it died of ${exit.signal}`);
  }

  function checkDied(exit: CellExit): ScriptCheck {
    const error =
      verdict !== undefined && verdict !== 'ours'
        ? verdict.error
        : (over.get(checkBody)?.error ?? crashError(`it died of ${exit.signal}`));
    return { ok: false, message: `The script could not be evaluated: ${error.message}.`, line: null, column: null };
  }

  /** What can be using the process at this moment: the deepest body, unless it stands still, or a check. */
  function runningNow(): { id: number; memoryMb: number } | undefined {
    const body = bodies.at(-1);
    if (body === undefined) return checking && { id: checkBody, memoryMb: checking.memoryMb };
    return body.blocked ? undefined : { id: body.id, memoryMb: body.request.limits.memoryMb };
  }

  function usageOf(body: BodyRun): Usage {
    const usage = over.get(body.id)?.usage ?? seen.get(body.id)?.usage(body.request.limits.memoryMb);
    if (usage === undefined) throw new Error(`body ${body.id} was never started`);
    return usage;
  }

  const cell: Cell = {
    pid: process.pid,
    process,
    ready: ready.promise,
    exited,
    get alive() {
      return process.alive;
    },
    async run(request) {
      if (!process.alive) return { type: 'gone', lost: verdict === undefined, logs: [] };
      const id = nextBody++;
      const usage = trackUsage(process);
      seen.set(id, usage);
      const body = startBodyRun(id, request, {
        send: process.send,
        blocked: usage.block,
        unblocked: usage.unblock,
        // The bounds are kept inside the isolate; whatever passes them has broken out of its boot code.
        tooMuch: (what) => killFor(id, crashError(`it sent ${what} than a script can`)),
      });
      const { script, args, context, limits, replay } = request;
      bodies.push(body);
      const outerMax = cgroup?.limitGrowth(memoryBound(limits.memoryMb) + cgroupSlack);
      lastHeard = performance.now();
      process.send({ t: 'run', body: body.id, script, args, context, limits, replay });
      const end = await body.done;
      if (outerMax !== undefined) cgroup?.restore(outerMax);
      const index = bodies.indexOf(body);
      if (index !== -1) bodies.splice(index, 1);
      seen.delete(id);
      return end;
    },
    async check(source, memoryMb) {
      if (!process.alive) throw cellLost();
      checking = { ...Promise.withResolvers<ScriptCheck>(), memoryMb };
      seen.set(checkBody, trackUsage(process));
      lastHeard = performance.now();
      process.send({ t: 'check', source, memoryMb });
      try {
        return await checking.promise;
      } finally {
        checking = undefined;
        seen.delete(checkBody);
      }
    },
    setDeadline: (at) => process.send({ t: 'deadline', at }),
    async reset() {
      for (const body of bodies.splice(0).reverse()) body.gone(false);
      checking?.resolve({ ok: false, message: 'The check was dropped.', line: null, column: null });
      over.clear();
      if (!process.alive) return false;
      resetting = Promise.withResolvers();
      process.send({ t: 'reset' });
      const timer = setTimeout(() => resetting?.resolve(false), resetTimeoutMs);
      const clean = await resetting.promise;
      clearTimeout(timer);
      resetting = undefined;
      if (!clean) await cell.kill();
      return clean;
    },
    async kill() {
      verdict ??= 'ours';
      process.kill();
      await exited;
    },
    watch(now) {
      const running = runningNow();
      if (running === undefined) return;
      const { id, memoryMb } = running;
      const grown = seen.get(id)?.growth.read(process.memory().rss) ?? 0;
      seen.get(id)?.look(now);
      // The cell looks more often and kills itself; this is for one that does not come to it.
      if (grown > memoryBound(memoryMb)) killFor(id, memoryLimitError({ memoryMb }, grown));
      if (now - lastHeard > silenceMs) killFor(id, crashError('it stopped answering'));
    },
  };
  return cell;
}
