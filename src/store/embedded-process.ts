import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import { databaseEnvironment, dataFolderArgument } from './embedded-folder.ts';
import { readLines } from './embedded-log.ts';
import { type DatabaseUser, ownName } from './embedded-user.ts';

/** One run of PostgreSQL, from its start to its end. */
export interface PostgresProcess {
  /** Resolves when it has ended, for whatever reason, with how it ended and what it wrote last. */
  readonly ended: Promise<{ reason: string; lastLines: string[] }>;
  /** Ends it cleanly. Safe to call again. */
  stop(): Promise<void>;
}

export interface PostgresOptions {
  /** The data folder, in which nothing of an earlier run works any more. */
  folder: string;
  /** Where its socket goes; removed with everything in it when it has ended. */
  socketFolder: string;
  /** Path of the program. */
  program: string;
  user: DatabaseUser;
  /** false turns fsync off. */
  durable: boolean;
  logger: Logger;
}

/**
 * Runs beside the database as its parent, and ends it when our end of its standard input closes, which the kernel does
 * however this process ends. PostgreSQL first lets its clients go by themselves, after 1 s it ends them, after 6 more
 * it ends at once (and recovers at the next start), after 5 more it is killed.
 *
 * Who may connect is written on each start: by the socket only; as the server's own database user only the system user
 * whom the kernel names as the peer and who is ours; as another user, whose rights end at a namespace, by its password.
 * The socket's folder lets nobody else in anyway.
 */
const keeper = `
unset keeper
exec 3<&0 </dev/null
postgres=$1 sockets=$2 owner=$3
shift 3
printf 'local all jobcell peer map=server\\nlocal all all scram-sha-256\\n' > pg_hba.conf || exit 1
printf 'server "%s" jobcell\\n' "$owner" > pg_ident.conf || exit 1
(
  # Of each process, in KiB: SQL of a script that wants more fails alone, before the machine has none left for the others.
  ulimit -v 2097152
  exec "$postgres" "$@" 3<&-
) &
database=$!
# What the shell itself has to say would meet a closed pipe and end it.
exec 2>/dev/null
(
  pause() { sleep $1 & sleeping=$!; wait $sleeping; }
  while read -r _ <&3; do :; done
  sleeping=
  trap 'kill $sleeping; exit' TERM
  kill -TERM $database
  pause 1
  kill -INT $database
  pause 6
  kill -QUIT $database
  pause 5
  kill -KILL $database
) &
watcher=$!
wait $database
code=$?
kill $watcher
rm -rf "$sockets"
exit $code
`;

/** Starts PostgreSQL and waits until it answers and has the database `jobcell`. @throws JobcellError UNAVAILABLE */
export async function runPostgres(options: PostgresOptions): Promise<PostgresProcess> {
  const { folder, socketFolder, program, user, durable, logger } = options;
  const child = spawn(
    '/bin/sh',
    [
      ...['-c', 'eval "$keeper"', 'jobcell-postgres', program, socketFolder, ownName()],
      ...postgresSettings(socketFolder, durable),
    ],
    {
      ...user.ids,
      cwd: folder,
      // By the environment, so that a list of processes stays readable.
      env: { ...databaseEnvironment(), keeper },
      stdio: ['pipe', 'ignore', 'pipe'],
      // A session of its own: Ctrl+C in a terminal reaches this process, which ends the database last.
      detached: true,
    },
  );
  const running = follow(child, logger);
  try {
    await createDatabase(databaseUrl(socketFolder, 'postgres'), running);
    return running;
  } catch (error) {
    await running.stop();
    throw error;
  }
}

export const databaseUrl = (socketFolder: string, database: string) =>
  `postgresql://jobcell@localhost:5432/${database}?host=${encodeURIComponent(socketFolder)}&sslmode=disable`;

function postgresSettings(socketFolder: string, durable: boolean): string[] {
  const settings: Record<string, string> = {
    listen_addresses: '',
    port: '5432',
    unix_socket_directories: socketFolder,
    max_connections: '200',
    synchronous_commit: 'on',
    fsync: durable ? 'on' : 'off',
    // A new database fills within its first minute, which is how long the planner would know nothing of its tables.
    autovacuum_naptime: '5s',
    full_page_writes: durable ? 'on' : 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_line_prefix: '',
    // Statements are as long as who sends them likes, and hold what is in the tables.
    log_min_error_statement: 'panic',
    log_parameter_max_length_on_error: '0',
  };
  return ['-D', dataFolderArgument, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

/** Passes on PostgreSQL's log, keeps its last lines for an error, and notices its end. */
function follow(child: ChildProcess, logger: Logger): PostgresProcess {
  const lastLines: string[] = [];
  readLines(child.stderr!, (line) => {
    lastLines.push(line);
    if (lastLines.length > 10) lastLines.shift();
    logger[line.startsWith('PANIC') ? 'error' : 'debug']({ line }, 'embedded PostgreSQL');
  });
  // Writing to the pipe of a process that has ended: its end is noticed below.
  child.stdin!.on('error', (error) => logger.debug({ err: error }, 'embedded PostgreSQL'));
  const ended = new Promise<{ reason: string; lastLines: string[] }>((resolve) => {
    child.once('error', (error) => resolve({ reason: error.message, lastLines }));
    child.once('close', (code, signal) => resolve({ reason: `exit code ${code ?? signal}`, lastLines }));
  });
  return {
    ended,
    stop: async () => {
      child.stdin!.end();
      await ended;
    },
  };
}

/** Waits for the first connection (recovery after a crash may take a while) and creates the database `jobcell`. */
async function createDatabase(url: string, running: PostgresProcess): Promise<void> {
  let output: string | undefined;
  void running.ended.then(({ reason, lastLines }) => {
    output = lastLines.join('\n') || reason;
  });
  for (;;) {
    if (output !== undefined) throw new JobcellError('UNAVAILABLE', `The embedded PostgreSQL did not start: ${output}`);
    const client = new pg.Client(url);
    // A connection that breaks while it is being made is reported by connect() too.
    client.on('error', () => undefined);
    try {
      await client.connect();
    } catch (error) {
      if (!isStarting(error)) throw error;
      await sleep(20);
      continue;
    }
    const { rows } = await client.query(`select 1 from pg_database where datname = 'jobcell'`);
    if (rows.length === 0) await client.query('create database jobcell');
    await client.end();
    return;
  }
}

/** No socket yet, nobody behind it yet, or "the database system is starting up". */
function isStarting(error: unknown): boolean {
  return ['ENOENT', 'ECONNREFUSED', '57P03'].includes((error as { code?: string }).code ?? '');
}
