import type { LogLine, Usage } from './protocol.ts';
import type { BodyEnd, BodyRequest } from './sandbox.ts';
import type { CellBodyEnd, CodedError, FromCell, ToCell } from './wire.ts';

type CallMessage = Extract<FromCell, { t: 'call' }>;

/** The server's side of one run of one body: passes its calls on in order, and ends it once. */
export interface BodyRun {
  readonly id: number;
  readonly request: BodyRequest;
  readonly done: Promise<BodyEnd>;
  /** True while a blocking call of it is unanswered. */
  readonly blocked: boolean;
  call(message: CallMessage): void;
  logs(lines: LogLine[]): void;
  /** The cell says how it ended. Told on only after every recorded call of it has been answered (D5). */
  ended(end: CellBodyEnd, logs: LogLine[], usage: Usage): void;
  /** Its cell is dead, and that is this body's failure (D23). */
  died(error: CodedError, usage: Usage): void;
  gone(lost: boolean): void;
}

export function startBodyRun(id: number, request: BodyRequest, send: (message: ToCell) => void): BodyRun {
  const done = Promise.withResolvers<BodyEnd>();
  let finished = false;
  /** Recorded calls, one after the other. */
  let chain: Promise<void> = Promise.resolve();
  let nextPosition = 0;
  const early = new Map<number, CallMessage>();
  let blocking = 0;

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
    if (blocks) blocking++;
    const answer = await request.onCall({ op, args, payload, position, clock, logs });
    if (blocks) blocking--;
    if (!finished) send({ t: 'answer', body: id, call, answer });
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

  return {
    id,
    request,
    done: done.promise,
    get blocked() {
      return blocking > 0;
    },
    call(message) {
      if (message.position === null) void pass(message);
      else passInOrder(message, message.position);
    },
    logs(lines) {
      if (!finished) request.onLogs(lines);
    },
    ended(end, logs, usage) {
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
