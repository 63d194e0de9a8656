/** Network failures of the driver, and what `pg` says of a connection that ended under it. */
const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ECONNABORTED',
  // a Unix socket whose server is down
  'ENOENT',
  'EAI_AGAIN',
]);
const endedMessage =
  /^(Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|Query read timeout)/;

/**
 * Whether the database could not be reached, or went away under the statement: it may or may not have been carried out.
 * PostgreSQL's classes 08 (connection) and 57P (shutdown, crash recovery, an idle session that was ended), 53300 (too many connections), and 25006
 * (a standby that is not promoted yet).
 */
export function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return networkCodes.has(code) || /^(08...|57P0[1-35]|53300|25006)$/.test(code) || endedMessage.test(error.message);
}

/** After a lost connection the same statement is sent again this much later, ms. */
const reconnectDelayMs = 250;

/**
 * Runs `operation` until the database answers. It must be idempotent (D3): an answer that was lost is asked for again.
 * @throws what the operation throws of its own, and the signal's reason.
 */
export async function untilConnected<T>(operation: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await operation();
    } catch (error) {
      if (!isConnectionError(error) && !isVictim(error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, reconnectDelayMs));
    }
  }
}

/** PostgreSQL chose this transaction to end a deadlock or a conflict: nothing of it happened. */
function isVictim(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === '40P01' || error.code === '40001');
}
