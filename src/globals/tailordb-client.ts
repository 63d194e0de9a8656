import { limits } from '../limits.ts';
import type { NamespaceConnection, ResultPart } from '../store/tailordb/connection.ts';
import { ownFailure, sqlFailure } from './sql-failure.ts';
import type { SqlFailure } from './tailordb-protocol.ts';

/** A connection that a script was given, and what gives it back. */
export interface LentConnection {
  connection: NamespaceConnection;
  /** Its connection has ended. With `busy` PostgreSQL may still be at work for it, and has to be told. */
  giveBack(busy: boolean): void;
}

export type ClientAnswer = ResultPart | { failed: SqlFailure };

/** All in ms. */
interface Times {
  /** PostgreSQL's own limit of a statement, and how much later it is ended from here: a script can take the first away. */
  statementMs: number;
  graceMs: number;
  idleMs: number;
}

const usualTimes: Times = { statementMs: limits.tailordbStatementMs, graceMs: 5_000, idleMs: limits.tailordbIdleMs };

/**
 * A script's `tailordb.Client` between connect() and end(). It has one connection; one that nothing was asked of for a
 * while is ended, and the next statement opens another, unless a transaction was lost with it.
 */
export class TailordbClient {
  readonly #open: () => Promise<LentConnection>;
  readonly #times: Times;
  #lent: LentConnection | undefined;
  /** Why there is no transaction any more where the script believes to be in one. */
  #lostTransaction: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #busy = false;
  #ended = false;

  /** @param open a new connection; rejects when there is none */
  constructor(open: () => Promise<LentConnection>, times = usualTimes) {
    this.#open = open;
    this.#times = times;
  }

  /** @throws what `open` rejects with */
  async connect(): Promise<void> {
    const lent = await this.#open();
    if (this.#ended) {
      lent.connection.close('the client has ended');
      lent.giveBack(false);
      return;
    }
    this.#lent = lent;
    this.#waitForUse();
  }

  /** Runs a statement. @throws what `open` rejects with */
  async execute(sql: string, parameters: (string | null)[]): Promise<ClientAnswer> {
    if (this.#busy) return { failed: ownFailure('connectionLost', 'Another statement of this client is under way.') };
    if (sql.includes('\0'))
      return { failed: ownFailure('invalidText', 'The SQL holds U+0000, which PostgreSQL cannot take.') };
    if (this.#lent?.connection.alive === false) this.#dropConnection('the connection to the database was lost');
    if (this.#lostTransaction !== undefined) return this.#withoutTransaction(sql, this.#lostTransaction);
    if (this.#lent === undefined) await this.connect();
    if (this.#lent === undefined) return { failed: ownFailure('connectionLost', 'The client has ended.') };
    this.#busy = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#tooSlow(), this.#times.statementMs + this.#times.graceMs);
    return this.#part(this.#lent.connection.execute(sql, parameters));
  }

  /** The next part of the result. */
  async next(): Promise<ClientAnswer> {
    if (this.#lent === undefined || !this.#busy) {
      return { failed: ownFailure('connectionLost', 'The result is not there any more.') };
    }
    return this.#part(this.#lent.connection.next());
  }

  /** Ends the connection; what is not committed is rolled back. */
  end(): void {
    this.#ended = true;
    this.#dropConnection('the client has ended');
  }

  async #part(coming: Promise<ResultPart>): Promise<ClientAnswer> {
    try {
      const part = await coming;
      if (part.end !== null) this.#finished();
      return part;
    } catch (error) {
      const failed = sqlFailure(error);
      this.#finished();
      if (failed === undefined) throw error;
      return { failed };
    }
  }

  #finished(): void {
    clearTimeout(this.#timer);
    // Ended from here under a statement, PostgreSQL may still be at work for it.
    if (this.#lent?.connection.alive === false) this.#dropConnection('its connection was ended');
    this.#busy = false;
    if (this.#lent !== undefined) this.#waitForUse();
  }

  #waitForUse(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#dropConnection(`nothing was asked of it for ${this.#times.idleMs / 1_000} s`);
    }, this.#times.idleMs);
  }

  /** PostgreSQL's own limit did not end it: the script has taken that away. */
  #tooSlow(): void {
    this.#dropConnection(`the statement took longer than ${this.#times.statementMs / 1_000} s`);
  }

  #dropConnection(reason: string): void {
    clearTimeout(this.#timer);
    const lent = this.#lent;
    if (lent === undefined) return;
    this.#lent = undefined;
    const busy = this.#busy;
    this.#busy = false;
    if (lent.connection.inTransaction) this.#lostTransaction = reason;
    lent.connection.close(reason);
    lent.giveBack(busy);
  }

  /** A script that believes to be in a transaction must not go on outside of one. */
  #withoutTransaction(sql: string, reason: string): ClientAnswer {
    const ends = /^\s*(?:(rollback|abort)|(commit|end))\b(?!\s+(?:transaction\s+|work\s+)?to\b)/i.exec(sql);
    if (ends !== null) this.#lostTransaction = undefined;
    // What it asks for has been done.
    if (ends?.[1] !== undefined) return { columns: [], rows: null, end: { command: 'ROLLBACK', rowCount: 0 } };
    return {
      failed: ownFailure('idleTransaction', `The transaction is not there any more and was rolled back: ${reason}.`),
    };
  }
}
