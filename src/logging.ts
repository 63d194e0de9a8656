import { Writable } from 'node:stream';
import { type Logger, pino } from 'pino';
import type { Config } from './config.ts';

/** The server's log on stderr: lines for people on a terminal, JSON everywhere else. */
export function createLogger(level: Config['logLevel']): Logger {
  const options = { level, base: null, serializers: { err: describeError } };
  if (!process.stderr.isTTY) return pino(options, pino.destination({ fd: 2, sync: false }));
  const lines = new Writable({
    write(chunk: Buffer, _encoding, done) {
      process.stderr.write(`${readable(JSON.parse(chunk.toString()) as LogRecord)}\n`, () => done());
    },
  });
  return pino(options, lines);
}

/** What a person needs of an error. Libraries hang whole clients on theirs, queries and secrets included. */
export function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { code } = error as { code?: unknown };
  // Of several addresses that were tried the first tells enough, and the whole has no message of its own.
  const { message } = error instanceof AggregateError && error.message === '' ? (error.errors[0] ?? error) : error;
  const causes = error.cause instanceof Error ? { cause: describeError(error.cause) } : {};
  return { type: error.constructor.name, message, code, stack: error.stack, ...causes };
}

interface LogRecord {
  level: number;
  time: number;
  msg?: string;
  err?: { stack?: string; message?: string };
  [field: string]: unknown;
}

/** `12:34:56.789 WARN  the message  field=value`, an error's stack on lines of its own. */
function readable({ level, time, msg, err, ...fields }: LogRecord): string {
  const clock = new Date(time).toISOString().slice(11, 23);
  const name = (pino.levels.labels[level] ?? String(level)).toUpperCase().padEnd(5);
  const rest = Object.entries(fields).map(([key, value]) => {
    return `  ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`;
  });
  const stack = err === undefined ? '' : `\n${err.stack ?? err.message ?? ''}`;
  return `${clock} ${name} ${msg ?? ''}${rest.join('')}${stack}`;
}
