import type { Logger } from 'pino';
import type { LogLine } from '../sandbox/protocol.ts';
import { untilConnected } from '../store/connection-errors.ts';
import type { Pool } from '../store/database.ts';
import { type Claim, commitLogs, type LogRow } from '../store/steps.ts';

/** Lines that come outside of a call show this much later at the latest, ms. */
const flushDelayMs = 100;

/** The log of one run: numbers the lines, and holds them until the next record takes them along. */
export class RunLog {
  readonly #pool: Pool;
  readonly #claim: Claim;
  readonly #logger: Logger;
  readonly #signal: AbortSignal;
  #lastId: number;
  #held: LogRow[] = [];
  /** On their way to the database by themselves, and not known to have arrived. */
  #sent: LogRow[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();

  /** @param options.signal ends the wait for a database that is away. */
  constructor(options: { pool: Pool; claim: Claim; logger: Logger; lastId: number; signal: AbortSignal }) {
    this.#pool = options.pool;
    this.#claim = options.claim;
    this.#logger = options.logger;
    this.#signal = options.signal;
    this.#lastId = options.lastId;
  }

  /** Adds lines; they are written with the next `take`, or by themselves when none comes soon. */
  add(path: string, run: number, lines: LogLine[]): void {
    for (const { at, level, message, attributes } of lines) {
      this.#held.push({ id: ++this.#lastId, path, run, at, level, message, attributes: attributes ?? null });
    }
    if (this.#held.length > 0) this.#timer ??= setTimeout(() => this.#flush(), flushDelayMs);
  }

  /**
   * Hands the lines that are not known to be written to a record that is about to be committed, so that no record stands
   * without the lines before it. A line that is written twice is one line, by its number (D3).
   */
  take(): LogRow[] {
    return [...this.#sent, ...this.#takeHeld()];
  }

  /** Takes lines back that the record they were handed to did not commit. */
  putBack(lines: LogRow[]): void {
    this.#held.unshift(...lines);
  }

  /** Resolves when nothing is being written any more; what is still held is dropped. */
  async close(): Promise<void> {
    this.take();
    await this.#flushing;
  }

  #takeHeld(): LogRow[] {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#held;
    this.#held = [];
    return lines;
  }

  #flush(): void {
    const lines = this.#takeHeld();
    this.#sent.push(...lines);
    this.#flushing = this.#flushing
      .then(() => untilConnected(() => commitLogs(this.#pool, this.#claim, lines), this.#signal))
      .catch((error: unknown) => {
        // A run that is abandoned: its bodies run again elsewhere, and log again.
        if (this.#signal.aborted) return;
        // Lines are worth less than the run: it goes on, and the operator sees why they are missing.
        this.#logger.warn({ err: error, executionId: this.#claim.executionId }, 'could not write log lines');
      })
      .then(() => {
        const written = new Set(lines);
        this.#sent = this.#sent.filter((line) => !written.has(line));
      });
  }
}
