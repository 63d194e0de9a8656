import type { FromCell } from '../wire.ts';

type CallMessage = Extract<FromCell, { t: 'call' }>;

/** Characters of calls that the server holds at once for one body. A single call may be larger than that. */
const windowChars = 8 * 1024 * 1024;

/**
 * Passes the calls of one body on to the server, a bounded amount of text at a time (S4). What does not fit waits in
 * here, where it counts as the memory of the script that made it. Recorded calls keep their order (D5); they and the
 * others do not wait for each other.
 */
export class CallWindow {
  readonly #send: (message: CallMessage) => void;
  readonly #recorded: Lane = { waiting: [], inFlight: new Map(), chars: 0 };
  readonly #others: Lane = { waiting: [], inFlight: new Map(), chars: 0 };
  #drained: (() => void) | undefined;

  constructor(send: (message: CallMessage) => void) {
    this.#send = send;
  }

  post(message: CallMessage): void {
    const lane = message.position === null ? this.#others : this.#recorded;
    if (lane.waiting.length === 0 && fits(lane, message)) this.#pass(lane, message);
    else lane.waiting.push(message);
  }

  answered(call: number): void {
    for (const lane of [this.#recorded, this.#others]) {
      const chars = lane.inFlight.get(call);
      if (chars === undefined) continue;
      lane.inFlight.delete(call);
      lane.chars -= chars;
      for (let next = lane.waiting[0]; next !== undefined && fits(lane, next); next = lane.waiting[0]) {
        lane.waiting.shift();
        this.#pass(lane, next);
      }
    }
    if (this.empty) this.#drained?.();
  }

  /** Every call has been passed on. */
  get empty(): boolean {
    return this.#recorded.waiting.length === 0 && this.#others.waiting.length === 0;
  }

  /** Calls back once every call has been passed on. */
  whenEmpty(callback: () => void): void {
    if (this.empty) callback();
    else this.#drained = callback;
  }

  /** Forgets what waits. */
  clear(): void {
    this.#recorded.waiting.length = 0;
    this.#others.waiting.length = 0;
  }

  #pass(lane: Lane, message: CallMessage): void {
    const chars = charsOf(message);
    lane.inFlight.set(message.call, chars);
    lane.chars += chars;
    this.#send(message);
  }
}

interface Lane {
  waiting: CallMessage[];
  /** Characters of the calls that are not answered, by their number. */
  inFlight: Map<number, number>;
  chars: number;
}

const charsOf = ({ args, payload }: CallMessage) => args.length + (payload?.length ?? 0);
const fits = (lane: Lane, message: CallMessage) =>
  lane.inFlight.size === 0 || lane.chars + charsOf(message) <= windowChars;
