import { availableParallelism } from 'node:os';
import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import { type Cell, openCell } from './cell.ts';
import { openCellCgroups } from './cgroup.ts';
import { createFairness, type Holder } from './fairness.ts';
import { monotonicMs } from './wire.ts';

export interface PoolOptions {
  /** Most cells at once. */
  cells: number;
  /** Cells that workflow runs leave to functions and to checks of uploads; none by default. */
  reserved?: number;
  /** Cells kept warm while idle. */
  prewarmed: number;
  /**
   * While all cells together hold more than this of their own, new runs wait, but for the short ones (`reserve`) of a
   * workspace that holds little of it.
   */
  memoryMb: number;
  /** Holds dist/ and node_modules/. */
  packageRoot: string;
  logger: Logger;
}

interface Waiter extends Holder {
  resolve: (cell: Cell) => void;
}

/** A cell nobody uses, and the workspace it may be used again for; null for a fresh one. */
interface IdleCell {
  cell: Cell;
  workspaceId: string | null;
  since: number;
}

export interface Pool {
  start(): Promise<void>;
  stop(): Promise<void>;
  free(): number;
  onFree(callback: () => void): void;
  acquire(holder: Holder, waitMs: number | undefined, signal: AbortSignal | undefined): Promise<Cell>;
  /** Gives a cell back; `reusable` after a clean end. Resolves once its run is confirmed gone. */
  release(cell: Cell, holder: Holder, reusable: boolean): Promise<void>;
  setDeadline(at: number): void;
}

/** A cell with more memory of its own than this is not used again: a fresh one starts at about 15 MB. */
const reusableOwnBytes = 96 * 1024 * 1024;
/** An idle cell that only one workspace may use goes after so long. */
const idleMs = 30_000;
const watchMs = 25;
/**
 * Cells that start at once. A start is 60 ms of CPU, so more of them side by side would only slow each other down, and
 * whoever could soon have the cell of a short run before it.
 */
const startsAtOnce = Math.max(2, availableParallelism());
/**
 * Short runs that compute at once. Most end within a few milliseconds, and more of them side by side only cost caches and
 * cells (16 clients on 2 cores: half the throughput with 16 cells instead of 6). One that has not ended after
 * `settleMs` waits for something, or is long: it no longer counts.
 */
const computingAtOnce = Math.max(4, 3 * availableParallelism());
const settleMs = 50;
const housekeepingMs = 1_000;
/** Of the memory budget: a workspace that holds no more than this still gets cells for short runs when it is used up. */
const smallShare = 1 / 8;

export function openPool({ cells, reserved = 0, prewarmed, memoryMb, packageRoot, logger }: PoolOptions): Pool {
  const cgroups = openCellCgroups(logger);
  const fairness = createFairness(cells, reserved);
  const all = new Set<Cell>();
  const busy = new Map<Cell, Holder>();
  let idle: IdleCell[] = [];
  /** Busy ones whose deadline passed: they end at any moment, or did not notice; either way nobody gets them again. */
  const lapsedCells = new WeakSet<Cell>();
  let starting = 0;
  const waiters: Waiter[] = [];
  const freeCallbacks: (() => void)[] = [];
  let deadlineAt: number | undefined;
  let stopped = false;
  let overBudget = false;
  /** Bytes of their own that the busy cells of each workspace held at the last look. */
  let ownBytes = new Map<string, number>();
  let watchdog: NodeJS.Timeout | undefined;
  let housekeeper: NodeJS.Timeout | undefined;
  let lastWatch = 0;
  let startFailed = false;
  let hadFree = true;

  /** Past the lease every cell kills itself (D4), so none is handed out or started until it is pushed on. */
  const lapsed = () => deadlineAt !== undefined && monotonicMs() >= deadlineAt;
  /** Short runs that began just now. */
  const beginning = new Map<Cell, NodeJS.Timeout>();
  const mayBegin = (holder: Holder) => !holder.reserve || beginning.size < computingAtOnce;
  const hasMemory = ({ workspaceId, reserve }: Holder) =>
    !overBudget || (reserve && (ownBytes.get(workspaceId) ?? 0) <= memoryMb * 1024 * 1024 * smallShare);
  /** Waiters that only lack a cell; the others wait until something of their workspace, or another run, ends. */
  const waitingForCell = () => {
    const admitted = waiters.filter((waiter) => hasMemory(waiter) && fairness.admits(waiter));
    const short = admitted.filter(({ reserve }) => reserve).length;
    return admitted.length - short + Math.min(short, computingAtOnce - beginning.size);
  };
  const free = () => {
    if (overBudget || lapsed()) return 0;
    return Math.max(0, fairness.room() - waitingForCell());
  };

  async function fork(): Promise<void> {
    starting++;
    const cell = openCell(packageRoot, logger, cgroups);
    all.add(cell);
    // Before it is ready: a server that is stopped now could not tell it later (D4).
    if (deadlineAt !== undefined) cell.setDeadline(deadlineAt);
    cell.exited.then((exit) => {
      all.delete(cell);
      idle = idle.filter((entry) => entry.cell !== cell);
      if (!stopped && exit.stderr !== '')
        logger.debug({ pid: cell.pid, stderr: exit.stderr }, 'a cell wrote to stderr');
      serve();
    });
    try {
      await cell.ready;
      idle.push({ cell, workspaceId: null, since: performance.now() });
    } catch (error) {
      startFailed = true;
      if (!stopped) logger.error({ err: error }, 'a cell did not start');
      throw error;
    } finally {
      starting--;
    }
  }

  /** Serves waiters from idle cells, and forks or makes room for the ones left over and for the warm reserve. */
  function serve(): void {
    if (stopped || lapsed()) return;
    for (;;) {
      const index = fairness.next(
        waiters,
        (waiter) => hasMemory(waiter) && mayBegin(waiter) && pick(waiter.workspaceId) !== undefined,
      );
      if (index === -1) break;
      const [waiter] = waiters.splice(index, 1) as [Waiter];
      const entry = pick(waiter.workspaceId) as IdleCell;
      idle.splice(idle.indexOf(entry), 1);
      busy.set(entry.cell, waiter);
      fairness.take(waiter);
      if (waiter.reserve) begin(entry.cell);
      watchdog ??= setInterval(watch, watchMs);
      waiter.resolve(entry.cell);
    }
    const fresh = idle.filter((entry) => entry.workspaceId === null).length + starting;
    const wanted = waitingForCell() + Math.min(prewarmed, cells - busy.size);
    for (let missing = wanted - fresh; missing > 0; missing--) {
      // After a failed start only the housekeeper tries again, once a second.
      if (startFailed || starting >= startsAtOnce) break;
      if (all.size >= cells) {
        evictForeign();
        break;
      }
      fork().then(serve, () => {});
    }
    const hasFree = free() > 0;
    const became = hasFree && !hadFree;
    hadFree = hasFree;
    if (became) for (const callback of freeCallbacks) callback();
  }

  function begin(cell: Cell): void {
    const settled = () => {
      beginning.delete(cell);
      serve();
    };
    beginning.set(cell, setTimeout(settled, settleMs));
  }

  function pick(workspaceId: string): IdleCell | undefined {
    return (
      idle.findLast((entry) => entry.workspaceId === workspaceId && entry.cell.alive) ??
      idle.find((entry) => entry.workspaceId === null && entry.cell.alive)
    );
  }

  /** Kills the idle cell that has waited longest for its workspace, but only while somebody waits for a cell. */
  function evictForeign(): void {
    const entry = idle.find((candidate) => candidate.workspaceId !== null);
    if (waitingForCell() === 0 || entry === undefined) return;
    idle.splice(idle.indexOf(entry), 1);
    // Its place is free once it is gone; `exited` serves again.
    void entry.cell.kill();
  }

  function watch(): void {
    const now = performance.now();
    // When this process itself stood still, messages of the cells are still on their way: ask again next time.
    const late = now - lastWatch > 20 * watchMs && lastWatch !== 0;
    lastWatch = now;
    for (const cell of busy.keys()) cell.watch(late ? 0 : now);
  }

  function housekeep(): void {
    const now = performance.now();
    const old = idle.filter((entry) => entry.workspaceId !== null && now - entry.since > idleMs);
    for (const { cell } of old) {
      idle = idle.filter((entry) => entry.cell !== cell);
      void cell.kill();
    }
    let own = 0;
    ownBytes = new Map();
    for (const cell of all) {
      const bytes = cell.process.memory().own;
      const holder = busy.get(cell)?.workspaceId;
      own += bytes;
      if (holder !== undefined) ownBytes.set(holder, (ownBytes.get(holder) ?? 0) + bytes);
    }
    const wasOver = overBudget;
    overBudget = own > memoryMb * 1024 * 1024;
    if (overBudget && !wasOver) logger.warn({ own, memoryMb }, 'the cells are over their memory budget: new runs wait');
    startFailed = false;
    serve();
  }

  return {
    async start() {
      housekeeper = setInterval(housekeep, housekeepingMs);
      housekeeper.unref();
      const first = fork();
      first.then(serve, () => {});
      await first;
    },
    async stop() {
      stopped = true;
      clearInterval(watchdog);
      clearInterval(housekeeper);
      await Promise.all([...all].map((cell) => cell.kill()));
    },
    free,
    onFree(callback) {
      freeCallbacks.push(callback);
    },
    acquire(holder, waitMs, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<Cell>();
      signal?.throwIfAborted();
      const waiter: Waiter = { ...holder, resolve };
      const giveUp = (reason: unknown) => {
        const index = waiters.indexOf(waiter);
        if (index === -1) return;
        waiters.splice(index, 1);
        reject(reason);
      };
      const timer =
        waitMs === undefined
          ? undefined
          : setTimeout(() => {
              giveUp(new JobcellError('OVERLOADED', `No cell became free within ${waitMs} ms; try again later.`));
            }, waitMs);
      const aborted = () => giveUp(signal?.reason);
      signal?.addEventListener('abort', aborted, { once: true });
      waiters.push(waiter);
      serve();
      return promise.finally(() => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', aborted);
      });
    },
    async release(cell, holder, reusable) {
      const clean = reusable && !stopped && (await cell.reset());
      if (clean && !stopped && !lapsedCells.has(cell) && cell.process.memory().own <= reusableOwnBytes) {
        busy.delete(cell);
        idle.push({ cell, workspaceId: holder.workspaceId, since: performance.now() });
      } else {
        await cell.kill();
        busy.delete(cell);
      }
      fairness.giveBack(holder);
      clearTimeout(beginning.get(cell));
      beginning.delete(cell);
      if (busy.size === 0) {
        clearInterval(watchdog);
        watchdog = undefined;
        lastWatch = 0;
      }
      serve();
    },
    setDeadline(at) {
      if (lapsed()) {
        // They kill themselves, if they have not yet; what would be handed out now would die in its run.
        for (const cell of busy.keys()) lapsedCells.add(cell);
        for (const { cell } of idle.splice(0)) void cell.kill();
      }
      deadlineAt = at;
      // One that is starting as well: it has the deadline of its fork, and would die of it once it is ready.
      for (const cell of all) cell.setDeadline(at);
      serve();
    },
  };
}
