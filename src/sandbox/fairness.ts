/** Who holds a cell, or waits for one. */
export interface Holder {
  workspaceId: string;
  /** It may take a cell of the reserve. */
  reserve: boolean;
}

/**
 * Who may have a cell, and whose turn it is (sandbox.md, The design, 9). A run cannot be interrupted for another one, so
 * what must stay free for others has to be kept free before they come:
 *
 * - The reserve is for short work; workflow runs of all workspaces together leave it alone.
 * - No workspace can hold every cell: half as many as the reserve stay for others. Short work is counted for its
 *   workspace. Runs are not, since a server takes them up as they come, whosever they are; they stop short of that
 *   number in all.
 * - Workspaces that wait take turns, each with its own oldest waiter.
 */
export interface Fairness {
  /** Whether it may take a cell, if there is one. */
  admits(holder: Holder): boolean;
  take(holder: Holder): void;
  giveBack(holder: Holder): void;
  /** How many more cells runs outside of the reserve may take. */
  room(): number;
  /** The index of the waiter whose turn it is among those that are admitted and that `hasCell` has a cell for; or -1. */
  next<Waiter extends Holder>(waiters: readonly Waiter[], hasCell: (waiter: Waiter) => boolean): number;
}

/** Turns of workspaces that are remembered; one that is forgotten comes first. */
const rememberedTurns = 1_000;

export function createFairness(cells: number, reserved: number): Fairness {
  const spare = Math.floor(reserved / 2);
  const held = new Map<string, number>();
  /** Workspaces in the order of their last turn. */
  const turns = new Map<string, number>();
  let turn = 0;
  let taken = 0;
  let outsideReserve = 0;

  const heldBy = (workspaceId: string) => held.get(workspaceId) ?? 0;
  const room = () => Math.min(cells - reserved - outsideReserve, cells - spare - taken);
  const admits = ({ workspaceId, reserve }: Holder) => (reserve ? heldBy(workspaceId) < cells - spare : room() > 0);

  return {
    admits,
    room,
    take({ workspaceId, reserve }) {
      held.set(workspaceId, heldBy(workspaceId) + 1);
      taken++;
      if (!reserve) outsideReserve++;
      turns.delete(workspaceId);
      turns.set(workspaceId, turn++);
      if (turns.size > rememberedTurns) turns.delete(turns.keys().next().value as string);
    },
    giveBack({ workspaceId, reserve }) {
      const left = heldBy(workspaceId) - 1;
      if (left > 0) held.set(workspaceId, left);
      else held.delete(workspaceId);
      taken--;
      if (!reserve) outsideReserve--;
    },
    next(waiters, hasCell) {
      let best = -1;
      let bestTurn = Number.POSITIVE_INFINITY;
      for (const [index, waiter] of waiters.entries()) {
        // Waiters stand in the order of their coming, so the first of a workspace is its oldest.
        const last = turns.get(waiter.workspaceId) ?? -1;
        if (last < bestTurn && admits(waiter) && hasCell(waiter)) {
          best = index;
          bestTurn = last;
        }
      }
      return best;
    },
  };
}
