import pg from 'pg';
import { limits } from '../../limits.ts';
import { isCopy } from './copy.ts';
import { type Column, RowEncoder, type RowsPart } from './rows.ts';
import { type RowSink, type Tap, tapConnection } from './tap.ts';

/** Whom a connection is for, and where it leads. */
export interface NamespaceLogin {
  /** Of the platform's database, on the same server. */
  databaseUrl: string;
  database: string;
  schema: string;
  role: string;
  password: string;
  /** PostgreSQL's own time limit of a statement, ms. */
  statementMs: number;
}

/** A part of a statement's result. The last one says how the statement ended. */
export interface ResultPart {
  /** With the first part. */
  columns: Column[];
  rows: RowsPart | null;
  end: { command: string; rowCount: number } | null;
}

/** The connection does not work any more; PostgreSQL has rolled back what was not committed. */
export class ConnectionEndedError extends Error {}

/** The result is larger than a script may read. The connection has been ended with it. */
export class ResultTooLargeError extends Error {}

/** PostgreSQL would send or expect what no script can take or give. The connection goes on as if nothing had been asked. */
export class CopyRefusedError extends Error {}

/** What a statement's parts are held in until somebody takes them. One a connection. */
const partBytes = 256 * 1024;

const connectMs = 10_000;

/** One connection of a script to its namespace. Statements come one after the other. */
export interface NamespaceConnection {
  /** The backend's process, by which it can be ended from another connection. */
  readonly pid: number;
  readonly alive: boolean;
  /** Whether it is in a transaction, also a failed one. */
  readonly inTransaction: boolean;
  /**
   * Runs a statement with PostgreSQL's text of its parameters, and answers the first part of its result.
   * @throws pg.DatabaseError what PostgreSQL says; ConnectionEndedError; ResultTooLargeError; CopyRefusedError
   */
  execute(sql: string, parameters: (string | null)[]): Promise<ResultPart>;
  /** The next part. Nothing more is read from PostgreSQL than that. @throws as execute */
  next(): Promise<ResultPart>;
  /** Runs one or more statements in one transaction, and answers how each ended; rows are thrown away. @throws as execute */
  run(sql: string): Promise<{ command: string; rowCount: number }[]>;
  /** Ends it. A statement under way fails with `reason`. */
  close(reason: string): void;
}

/** @throws pg.DatabaseError, or a network's error */
export async function connectNamespace(login: NamespaceLogin): Promise<NamespaceConnection> {
  const client = new pg.Client({ connectionString: connectionString(login), connectionTimeoutMillis: connectMs });
  // Whoever has a statement under way hears of it by `end`.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    void client.end().catch(() => undefined);
    throw error;
  }
  return new Connection(client);
}

/** In this form, since a URL without a host takes no user. */
function connectionString({ databaseUrl, database, schema, role, password, statementMs }: NamespaceLogin): string {
  const url = new URL(databaseUrl);
  url.pathname = `/${database}`;
  const settings = {
    search_path: schema,
    statement_timeout: statementMs,
    // For a server that was stopped where it stands; otherwise it ends them itself.
    idle_in_transaction_session_timeout: limits.tailordbIdleMs + 5_000,
    client_connection_check_interval: 2_000,
    timezone: 'UTC',
    datestyle: 'ISO',
    intervalstyle: 'postgres',
    bytea_output: 'hex',
    extra_float_digits: 1,
    client_encoding: 'UTF8',
    client_min_messages: 'warning',
  };
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  const parameters = { user: role, password, application_name: 'jobcell-tailordb', options: options.join(' ') };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

class Connection implements NamespaceConnection {
  readonly pid: number;
  readonly #client: pg.Client;
  readonly #tap: Tap;
  readonly #buffer = Buffer.allocUnsafe(partBytes);
  #statement: Statement | undefined;
  #alive = true;

  constructor(client: pg.Client) {
    this.#client = client;
    this.pid = (client as pg.Client & { processID: number }).processID;
    client.once('end', () => this.#ended(new ConnectionEndedError('the connection to the database was lost')));
    this.#tap = tapConnection(client.connection.stream, (what) => {
      const mib = limits.tailordbResultBytes / 1024 / 1024;
      this.#end(
        what === 'row'
          ? new ResultTooLargeError(`the result is larger than ${mib} MB`)
          : new ConnectionEndedError('the database sent a message that is too large'),
      );
    });
  }

  get alive(): boolean {
    return this.#alive;
  }

  get inTransaction(): boolean {
    return this.#client.getTransactionStatus() !== 'I';
  }

  execute(sql: string, parameters: (string | null)[]): Promise<ResultPart> {
    if (isCopy(sql)) return Promise.reject(new CopyRefusedError('COPY is not possible here'));
    const statement = new Statement(sql, parameters, this.#tap, this.#buffer);
    return this.#submit(statement).next();
  }

  next(): Promise<ResultPart> {
    if (this.#statement === undefined)
      return Promise.reject(new ConnectionEndedError('the result is not there any more'));
    return this.#statement.next();
  }

  async run(sql: string): Promise<{ command: string; rowCount: number }[]> {
    const statement = new Statement(sql, null, this.#tap, this.#buffer);
    await this.#submit(statement).next();
    return statement.ends;
  }

  close(reason: string): void {
    this.#end(new ConnectionEndedError(reason));
  }

  #submit(statement: Statement): Statement {
    this.#statement = statement;
    if (this.#alive) this.#client.query(statement);
    else statement.fail(new ConnectionEndedError('the connection has ended'));
    return statement;
  }

  #end(error: Error): void {
    if (!this.#alive) return;
    const busy = this.#statement?.running ?? false;
    this.#ended(error);
    // PostgreSQL notices a goodbye at once. Behind a statement under way nobody would read it.
    if (busy) this.#client.connection.stream.destroy();
    else void this.#client.end().catch(() => undefined);
  }

  #ended(error: Error): void {
    this.#alive = false;
    this.#statement?.fail(error);
  }
}

/** One statement, from its submission to ReadyForQuery, in the form that pg calls a Submittable. */
class Statement implements pg.Submittable, RowSink {
  readonly ends: { command: string; rowCount: number }[] = [];
  readonly #sql: string;
  /** Null: several statements may stand in the text, and their rows are thrown away. */
  readonly #parameters: (string | null)[] | null;
  readonly #tap: Tap;
  readonly #buffer: Buffer;
  #columns: Column[] = [];
  #encoder: RowEncoder | undefined;
  #bytes = 0;
  #failure: Error | undefined;
  #running = true;
  #waiter: PromiseWithResolvers<ResultPart> | undefined;

  constructor(sql: string, parameters: (string | null)[] | null, tap: Tap, buffer: Buffer) {
    this.#sql = sql;
    this.#parameters = parameters;
    this.#tap = tap;
    this.#buffer = buffer;
  }

  get running(): boolean {
    return this.#running;
  }

  next(): Promise<ResultPart> {
    if (this.#failure !== undefined && !this.running) return Promise.reject(this.#failure);
    if (this.#encoder?.full || !this.running) {
      const part = this.#take();
      this.#tap.resume();
      return Promise.resolve(part);
    }
    this.#waiter = Promise.withResolvers();
    return this.#waiter.promise;
  }

  fail(error: Error): void {
    if (!this.running) return;
    this.#failure = error;
    this.#finish();
  }

  begin(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#parameters === null || this.#bytes <= limits.tailordbResultBytes;
  }

  write(bytes: Buffer): number {
    if (this.#encoder === undefined) return bytes.length;
    let taken = 0;
    while (taken < bytes.length) {
      taken += this.#encoder.write(bytes.subarray(taken));
      if (!this.#encoder.full) continue;
      if (this.#waiter === undefined) break;
      this.#deliver();
    }
    return taken;
  }

  submit(connection: pg.Connection): void {
    this.#tap.sink = this;
    if (this.#parameters === null) {
      connection.query(this.#sql);
      return;
    }
    connection.stream.cork();
    connection.parse({ name: '', text: this.#sql, types: [] }, true);
    connection.bind({ values: this.#parameters }, true);
    connection.describe({ type: 'P', name: '' }, true);
    connection.execute({}, true);
    connection.sync();
    connection.stream.uncork();
  }

  handleRowDescription({ fields }: { fields: pg.FieldDef[] }): void {
    if (this.#parameters === null) return;
    this.#columns = fields.map(({ name, dataTypeID }) => ({ name, oid: dataTypeID }));
    this.#encoder = new RowEncoder(this.#columns, this.#buffer);
  }

  handleCommandComplete({ text }: { text: string }): void {
    // `INSERT 0 5`, `SELECT 5`, `CREATE TABLE`
    const [, command = '', count] = /^(\w*)\D*(?:\d+ )?(\d+)?$/.exec(text) ?? [];
    this.ends.push({ command, rowCount: Number(count ?? 0) });
  }

  handleEmptyQuery(): void {
    this.ends.push({ command: '', rowCount: 0 });
  }

  handleError(error: Error): void {
    this.#failure ??= error;
    // ReadyForQuery follows, but pg tells a statement that failed nothing of it.
    this.#finish();
  }

  handleReadyForQuery(): void {
    this.#finish();
  }

  handleCopyInResponse(connection: pg.Connection & { sendCopyFail(message: string): void }): void {
    connection.sendCopyFail('COPY from the client is not possible here; use INSERT');
  }

  /** Of the administrator's SQL only. Its rows never come so far (`tap.ts`). */
  handleCopyData(): void {}

  #finish(): void {
    if (!this.running) return;
    this.#running = false;
    this.#tap.sink = undefined;
    if (this.#waiter !== undefined) this.#deliver();
  }

  #deliver(): void {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    if (this.#failure !== undefined && !this.running) waiter?.reject(this.#failure);
    else waiter?.resolve(this.#take());
  }

  #take(): ResultPart {
    const encoder = this.#encoder;
    const rows = encoder === undefined || encoder.empty ? null : encoder.take();
    const end = this.running ? null : (this.ends.at(-1) ?? { command: '', rowCount: 0 });
    return { columns: this.#columns, rows, end };
  }
}
