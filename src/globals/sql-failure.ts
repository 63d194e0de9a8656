import { limits } from '../limits.ts';
import { ConnectionEndedError, CopyRefusedError, ResultTooLargeError } from '../store/tailordb/connection.ts';
import type { SqlFailure } from './tailordb-protocol.ts';

/** Characters of each text; a script can make an error as long as it likes. */
const shownChars = 4_096;

const sqlStates = {
  connectionLost: '08006',
  idleTransaction: '25P03',
  invalidText: '22021',
  notSupported: '0A000',
  tooLarge: '54000',
} as const;

/** An error of ours in the form of PostgreSQL's. */
export const ownFailure = (state: keyof typeof sqlStates, message: string): SqlFailure => ({
  message,
  code: sqlStates[state],
});

const fields = [
  'position',
  'severity',
  'detail',
  'hint',
  'table',
  'column',
  'dataType',
  'constraint',
  'where',
] as const satisfies (keyof SqlFailure)[];

/** What a script is told of a statement that failed; undefined for what is no failure of the statement. */
export function sqlFailure(error: unknown): SqlFailure | undefined {
  if (error instanceof ResultTooLargeError) {
    const mib = limits.tailordbResultBytes / 1024 / 1024;
    return ownFailure(
      'tooLarge',
      `The result of the query is larger than ${mib} MB. Read it page by page, or fewer columns of it. ` +
        'The connection was ended with it, and a transaction rolled back.',
    );
  }
  if (error instanceof ConnectionEndedError) {
    return ownFailure(
      'connectionLost',
      `The statement failed: ${error.message}. Whether it was carried out is not known, unless it was in a transaction, which was rolled back.`,
    );
  }
  if (error instanceof CopyRefusedError) {
    return ownFailure(
      'notSupported',
      'COPY is not possible in tailordb.Client, and nothing was done. Write rows with INSERT and read them with SELECT.',
    );
  }
  const state = sqlState(error);
  if (state === undefined) return undefined;
  const { message } = error as Error;
  const failure: SqlFailure = { message: message.slice(0, shownChars), code: state };
  for (const field of fields) {
    const value = (error as { [name in (typeof fields)[number]]?: unknown })[field];
    if (typeof value === 'string' && value !== '') failure[field] = value.slice(0, shownChars);
  }
  return failure;
}

/** The SQLSTATE of an error that PostgreSQL sent. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || !('severity' in error)) return undefined;
  return typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : undefined;
}
