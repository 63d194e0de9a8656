import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { openPool, type PoolOptions } from './pool.ts';
import type { CellLease, Sandbox, ScriptCheck } from './sandbox.ts';
import { monotonicMs } from './wire.ts';

/** How long an upload waits for a cell to be checked in. */
const checkWaitMs = 10_000;

export function createSandbox(options: PoolOptions): Sandbox {
  const pool = openPool(options);

  async function acquire(request: Parameters<Sandbox['acquire']>[0]): Promise<CellLease> {
    const { workspaceId, reserve = false, waitMs, signal } = request;
    const holder = { workspaceId, reserve };
    const cell = await pool.acquire(holder, waitMs, signal);
    let clean = true;
    let released: Promise<void> | undefined;
    return {
      pid: cell.pid,
      async run(body) {
        const end = await cell.run(body);
        if (end.type === 'failed' && end.error.code !== undefined && end.error.kind === 'USER_NON_RUNTIME')
          clean = false;
        return end;
      },
      check: cell.check,
      async drop() {
        if (!(await cell.reset())) clean = false;
      },
      release() {
        released ??= pool.release(cell, holder, clean);
        return released;
      },
    };
  }

  return {
    async start() {
      await pool.start();
      const check = await checkIn('', 'export const main = () => 1;', limits.functionMemoryMb);
      if (!check.ok) throw new Error(`The sandbox cannot run a script: ${check.message}`);
    },
    stop: pool.stop,
    free: pool.free,
    onFree: pool.onFree,
    acquire,
    check: (source, memoryMb, workspaceId = '') => checkIn(workspaceId, source, memoryMb),
    extendDeadline: (msFromNow) => pool.setDeadline(monotonicMs() + msFromNow),
  };

  /** A cell that is lost is nobody's fault, least of all the script's: another one checks it (D23). */
  async function checkIn(workspaceId: string, source: string, memoryMb: number): Promise<ScriptCheck> {
    for (let losses = 1; ; losses++) {
      try {
        return await checkOnce(workspaceId, source, memoryMb);
      } catch (error) {
        const lost = error instanceof JobcellError && error.code === 'CELL_LOST';
        if (!lost || losses > limits.cellLossesPerStep) throw error;
      }
    }
  }

  async function checkOnce(workspaceId: string, source: string, memoryMb: number): Promise<ScriptCheck> {
    const holder = { workspaceId, reserve: true };
    const cell = await pool.acquire(holder, checkWaitMs, undefined);
    try {
      return await cell.check(source, memoryMb);
    } finally {
      await pool.release(cell, holder, workspaceId !== '');
    }
  }
}
