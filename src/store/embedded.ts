import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import { findBinaries } from './embedded-binaries.ts';
import {
  awaitQuietFolder,
  createDatabaseFolder,
  databaseEnvironment,
  dataFolderArgument,
  lockFolder,
} from './embedded-folder.ts';
import { type DatabaseUser, databaseUser, ownName } from './embedded-user.ts';

export interface EmbeddedPostgres {
  /** Connection string of the database `jobcell`, by a Unix socket. */
  url: string;
  /** Ends the database cleanly and frees the data folder. Safe to call again. */
  stop(): Promise<void>;
}

/** A longer path does not fit into a socket's address (107 bytes on Linux, with `/.s.PGSQL.5432` behind it). */
const socketFolderChars = 80;

/**
 * Runs beside the database as its parent, and ends it when our end of its standard input closes, which the kernel does
 * however this process ends. PostgreSQL first lets its clients go by themselves, after 1 s it ends them, after 6 more
 * it ends at once (and recovers at the next start), after 5 more it is killed.
 *
 * Who may connect is written on each start: by the socket only, and only the system user whom the kernel names as the
 * peer and who is ours. The socket's folder lets nobody else in anyway.
 */
const keeper = `
unset keeper
exec 3<&0 </dev/null
postgres=$1 sockets=$2 owner=$3
shift 3
printf 'local all jobcell peer map=server\\n' > pg_hba.conf || exit 1
printf 'server "%s" jobcell\\n' "$owner" > pg_ident.conf || exit 1
"$postgres" "$@" 3<&- &
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

/**
 * Starts the packaged PostgreSQL on `dataDir`/postgres, created on the first start, and waits until it answers. It ends
 * with this process, whatever ends this process.
 *
 * @param options.durable false turns fsync off: for tests, whose data nobody misses.
 * @throws JobcellError CONFLICT when another server has the folder, UNAVAILABLE when PostgreSQL cannot run here.
 */
export async function startEmbeddedPostgres(
  dataDir: string,
  logger: Logger,
  options: { durable: boolean } = { durable: true },
): Promise<EmbeddedPostgres> {
  if (process.platform !== 'linux') {
    throw new JobcellError('UNAVAILABLE', 'The embedded PostgreSQL runs on Linux only. Set DATABASE_URL.');
  }
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const root = realpathSync(dataDir);
  const folder = join(root, 'postgres');
  const lock = await lockFolder(root);
  try {
    const user = databaseUser(folder);
    const binaries = await findBinaries(user);
    await createDatabaseFolder(folder, binaries, user, options.durable);
    await awaitQuietFolder(folder);
    const socketFolder = createSocketFolder(user);
    const settings = postgresSettings(socketFolder, options.durable);
    const child = spawn(
      '/bin/sh',
      ['-c', 'eval "$keeper"', 'jobcell-postgres', binaries.postgres, socketFolder, ownName(), ...settings],
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
    await createDatabase(urlOf(socketFolder, 'postgres'), running);
    logger.debug({ folder, socketFolder }, 'embedded PostgreSQL started');
    return {
      url: urlOf(socketFolder, 'jobcell'),
      stop: async () => {
        await running.stop();
        lock.close();
      },
    };
  } catch (error) {
    lock.close();
    throw error;
  }
}

function createSocketFolder(user: DatabaseUser): string {
  const parent = user.ids.uid === undefined && tmpdir().length <= socketFolderChars ? tmpdir() : '/tmp';
  // mkdtemp makes it with mode 0700.
  const folder = mkdtempSync(join(parent, 'jobcell-pg-'));
  if (user.ids.uid !== undefined) chownSync(folder, user.ids.uid, user.ids.gid);
  return folder;
}

const urlOf = (socketFolder: string, database: string) =>
  `postgresql://jobcell@localhost:5432/${database}?host=${encodeURIComponent(socketFolder)}&sslmode=disable`;

function postgresSettings(socketFolder: string, durable: boolean): string[] {
  const settings: Record<string, string> = {
    listen_addresses: '',
    port: '5432',
    unix_socket_directories: socketFolder,
    max_connections: '200',
    synchronous_commit: 'on',
    fsync: durable ? 'on' : 'off',
    full_page_writes: durable ? 'on' : 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_line_prefix: '',
  };
  return ['-D', dataFolderArgument, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

interface Running {
  /** What PostgreSQL wrote last, once it has ended; undefined while it runs. */
  ended(): string | undefined;
  stop(): Promise<void>;
}

/** Passes on PostgreSQL's log, keeps its last lines for an error, and notices its end. */
function follow(child: ChildProcess, logger: Logger): Running {
  const lastLines: string[] = [];
  let ended = false;
  let stopping = false;
  createInterface({ input: child.stderr! }).on('line', (line) => {
    lastLines.push(line);
    if (lastLines.length > 10) lastLines.shift();
    logger[line.startsWith('PANIC') ? 'error' : 'debug']({ line }, 'embedded PostgreSQL');
  });
  // Writing to the pipe of a process that has ended: its end is noticed below.
  child.stdin!.on('error', (error) => logger.debug({ error }, 'embedded PostgreSQL'));
  const end = new Promise<void>((resolve) => {
    const finish = (reason: string) => {
      ended = true;
      if (!stopping) logger.fatal({ reason, lastLines }, 'The embedded PostgreSQL ended. Restart jobcell.');
      resolve();
    };
    child.once('error', (error) => finish(error.message));
    child.once('close', (code, signal) => finish(`exit code ${code ?? signal}`));
  });
  return {
    ended: () => (ended ? lastLines.join('\n') : undefined),
    stop: async () => {
      stopping = true;
      child.stdin!.end();
      await end;
    },
  };
}

/** Waits for the first connection (recovery after a crash may take a while) and creates the database `jobcell`. */
async function createDatabase(url: string, running: Running): Promise<void> {
  for (;;) {
    const output = running.ended();
    if (output !== undefined) throw new JobcellError('UNAVAILABLE', `The embedded PostgreSQL did not start: ${output}`);
    const client = new pg.Client(url);
    // A connection that breaks while it is being made is reported by connect() too.
    client.on('error', () => undefined);
    try {
      await client.connect();
    } catch (error) {
      if (!isStarting(error)) {
        await running.stop();
        throw error;
      }
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
