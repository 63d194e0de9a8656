import { limits } from '../limits.ts';
import type { LogLine, Usage } from './protocol.ts';
import type { BodyEnd, BodyRequest } from './sandbox.ts';
import type { CellBodyEnd, CodedError, FromCell, ToCell } from './wire.ts';

type CallMessage = Extract<FromCell, { t: 'call' }>;

/** The server's side of one run of one body: passes its calls on in order, and ends it once. */
export interface BodyRun {
  readonly id: number;
  readonly request: BodyRequest;
  readonly done: Promise<BodyEnd>;
  /** True while none of it runs: a blocking call is unanswered, or it has ended and calls of it are still being answered. */
  readonly blocked: boolean;
  call(message: CallMessage): void;
  logs(lines: LogLine[]): void;
  /** The cell says how it ended. Told on only after every recorded call of it has been answered (D5). */
  ended(end: CellBodyEnd, logs: LogLine[], usage: Usage): void;
  /** Its cell is dead, and that is this body's failure (D23). */
  died(error: CodedError, usage: Usage): void;
  gone(lost: boolean): void;
}

interface CellSide {
  send: (message: ToCell) => void;
  /** The body stands still until an answer, and goes on. */
  blocked: () => void;
  unblocked: () => void;
  /** The cell sends what no script of ours can make it send; `what` completes "it sent ... than a script can". */
  tooMuch: (what: string) => void;
}

/** Twice what a body's own lines and the uncaught errors of it may come to, and the overhead of as many lines. */
const mostLogChars = 6 * limits.logRunBytes;

export function startBodyRun(id: number, request: BodyRequest, cell: CellSide): BodyRun {
  const done = Promise.withResolvers<BodyEnd>();
  let finished = false;
  /** Recorded calls, one after the other. */
  let chain: Promise<void> = Promise.resolve();
  let nextPosition = 0;
  const early = new Map<number, CallMessage>();
  let blocking = 0;
  let ending = false;
  let unanswered = 0;
  let logChars = 0;

  function finish(end: BodyEnd): void {
    finished = true;
    done.resolve(end);
  }

  async function pass({
    call,
    op,
    args,
    payload,
    position,
    clock,
    logs,
    blocking: blocks,
  }: CallMessage): Promise<void> {
    if (finished) return;
    if (blocks && blocking++ === 0) cell.blocked();
    const answer = await request.onCall({ op, args, payload, position, clock, logs });
    if (blocks && --blocking === 0) cell.unblocked();
    unanswered--;
    if (!finished) cell.send({ t: 'answer', body: id, call, answer });
  }

  /**
   * Positions have no gaps, so a call that overtook an earlier one waits for it. One at a position that was passed on
   * already goes on with that call, and has nothing to wait for but its turn.
   */
  function passInOrder(message: CallMessage, position: number): void {
    if (position < nextPosition) {
      chain = chain.then(() => pass(message));
      return;
    }
    early.set(position, message);
    for (let next = early.get(nextPosition); next !== undefined; next = early.get(nextPosition)) {
      early.delete(nextPosition++);
      const call = next;
      chain = chain.then(() => pass(call));
    }
  }

  function counted(lines: LogLine[]): LogLine[] {
    for (const { message, attributes } of lines) logChars += message.length + (attributes?.length ?? 0);
    if (logChars > mostLogChars) cell.tooMuch('more log lines');
    return lines;
  }

  return {
    id,
    request,
    done: done.promise,
    get blocked() {
      return blocking > 0 || ending;
    },
    call(message) {
      counted(message.logs);
      // One more than may be under way in the background: a call that blocks.
      if (++unanswered > limits.outstandingHostCalls + 1) cell.tooMuch('more calls at once');
      else if (message.position === null) void pass(message);
      else passInOrder(message, message.position);
    },
    logs(lines) {
      if (!finished) request.onLogs(counted(lines));
    },
    ended(end, logs, usage) {
      ending = true;
      chain = chain.then(() => {
        if (finished) return;
        finish(end.type === 'returned' ? { ...end, logs, usage } : { ...end, logs, usage, treeGone: false });
      });
    },
    died(error, usage) {
      if (!finished) finish({ type: 'failed', error, failingPosition: null, logs: [], usage, treeGone: true });
    },
    gone(lost) {
      if (!finished) finish({ type: 'gone', lost, logs: [] });
    },
  };
}
