import { JobcellError } from '../errors.ts';

interface SystemError extends Error {
  code?: string;
  address?: string;
  port?: number;
  /** Of a failed look-up. */
  hostname?: string;
}

/**
 * What made a start fail, in a line or two: what happened, to what, and what to do. Only an error nobody foresaw comes
 * with its stack, for a report.
 */
export function explain(error: unknown): string {
  if (error instanceof JobcellError) return error.message;
  if (!(error instanceof Error)) return String(error);
  // A host name with several addresses gives one error for each try.
  const { code, message, port, ...system } = (error instanceof AggregateError ? error.errors[0] : error) as SystemError;
  const host = system.address ?? system.hostname;
  const where = host === undefined ? '' : ` ${host}${port === undefined ? '' : `:${port}`}`;
  switch (code) {
    case 'EADDRINUSE':
      return `${where.trim()} is already in use, perhaps by another jobcell. Stop that, or choose another --port (0 picks a free one).`;
    case 'EADDRNOTAVAIL':
      return `This machine has no address${where} to listen on. Choose another --host.`;
    case 'EACCES':
    case 'EROFS':
      return `No permission: ${message}. Choose another --port, --host or --data-dir, or run as a user who may.`;
    case 'ENOSPC':
      return `The disk is full: ${message}. Free some space, or choose another --data-dir.`;
    case 'ECONNREFUSED':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `The database cannot be reached (${code}${where}). Check that it runs and that DATABASE_URL names it.`;
    case '28P01':
    case '28000':
      return `The database refuses the login: ${message}. Check user and password in DATABASE_URL.`;
    case '3D000':
      return `The database server has no such database: ${message}. Create it, or correct DATABASE_URL.`;
    case '42501':
      return `The database user may not do this: ${message}. Jobcell creates the schema "jobcell": grant the user CREATE on the database.`;
    case '53300':
      return `The database takes no more connections: ${message}. Raise its max_connections, or close others.`;
    default:
      return error.stack ?? error.message;
  }
}
