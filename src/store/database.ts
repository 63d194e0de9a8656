import pg from 'pg';

export type Pool = pg.Pool;
/** A pool or one of its clients inside a transaction. */
export type Queryable = Pick<pg.ClientBase, 'query'>;

/** All tables live in this schema; tenants' own schemas stand beside it. */
export const schemaName = 'jobcell';

/** int8 comes as a number: revisions, fences and sizes stay far below 2^53. */
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

/**
 * A transaction whose server has fallen silent between two statements is ended by PostgreSQL after so long, ms: its locks
 * would hold up whoever takes over.
 */
const idleInTransactionMs = 10_000;

const connection = (url: string, lockMs = 0) => ({
  connectionString: url,
  options: `-c search_path=${schemaName} -c idle_in_transaction_session_timeout=${idleInTransactionMs} -c lock_timeout=${lockMs}`,
});

/**
 * @param options.answerMs a connection, or an answer, that takes longer is given up and its connection dropped: a
 * network that swallows packets tells nobody, and TCP itself gives up after a quarter of an hour. No limit by default.
 * @param options.lockMs a statement that waits longer for a lock fails (55P03). No limit by default.
 */
export function openPool(
  url: string,
  options: { max: number; answerMs?: number; lockMs?: number; onError: (error: Error) => void },
): Pool {
  const { max, answerMs, lockMs } = options;
  const pool = new pg.Pool({
    ...connection(url, lockMs),
    max,
    application_name: 'jobcell',
    // A new connection plans every statement and compiles every function again: 20 ms of the database's CPU and more.
    idleTimeoutMillis: 300_000,
    keepAlive: true,
    ...(answerMs === undefined ? {} : { connectionTimeoutMillis: answerMs, query_timeout: answerMs }),
  });
  // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
  pool.on('error', (error: Error & { client?: unknown }) => {
    // The whole client hangs on it, and would fill the log.
    delete error.client;
    options.onError(error);
  });
  return pool;
}

/** A connection of its own, for LISTEN. */
export function openClient(url: string): pg.Client {
  return new pg.Client({ ...connection(url), application_name: 'jobcell-listen', keepAlive: true });
}

/** Rejects when the database does not answer. */
export async function ping(db: Queryable): Promise<void> {
  await db.query('select 1');
}

/** Runs `work` in one transaction: committed when it resolves, rolled back when it rejects. */
export async function transaction<T>(pool: Pool, work: (client: Queryable) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  // While it is taken out of the pool, a connection that breaks would end the process. The statement fails as well.
  const ignore = () => {};
  client.on('error', ignore);
  try {
    await client.query('begin');
    const result = await work(client);
    await client.query('commit');
    client.release();
    return result;
  } catch (error) {
    await client.query('rollback').then(
      () => client.release(),
      (broken: Error) => client.release(broken),
    );
    throw error;
  } finally {
    client.off('error', ignore);
  }
}
