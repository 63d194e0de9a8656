import { chownSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import { findBinaries } from './embedded-binaries.ts';
import { awaitQuietFolder, createDatabaseFolder, lockFolder } from './embedded-folder.ts';
import { databaseUrl, type PostgresOptions, type PostgresProcess, runPostgres } from './embedded-process.ts';
import { type DatabaseUser, databaseUser } from './embedded-user.ts';

export interface EmbeddedPostgres {
  /** Connection string of the database `jobcell`, by a Unix socket; the same after the database was started again. */
  url: string;
  /** Resolves when the database ended by itself and cannot be started again: nothing works any more. */
  lost: Promise<JobcellError>;
  /** Ends the database cleanly and frees the data folder. Safe to call again. */
  stop(): Promise<void>;
}

/** A longer path does not fit into a socket's address (107 bytes on Linux, with `/.s.PGSQL.5432` behind it). */
const socketFolderChars = 80;
/**
 * A database that ended by itself is started again so often in a row, each time after twice the delay; one that ran for
 * a while begins anew.
 */
const restarts = 5;
const restartDelayMs = 250;
const stableMs = 60_000;

/**
 * Starts the packaged PostgreSQL on `dataDir`/postgres, created on the first start, and waits until it answers. It ends
 * with this process, whatever ends this process; should it end by itself, it is started again.
 *
 * @param options.durable false turns fsync off: for tests, whose data nobody misses.
 * @throws JobcellError CONFLICT when another server has the folder, UNAVAILABLE when PostgreSQL cannot run here.
 */
export async function startEmbeddedPostgres(
  dataDir: string,
  logger: Logger,
  { durable }: { durable: boolean } = { durable: true },
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
    await createDatabaseFolder(folder, binaries, user, durable);
    await awaitQuietFolder(folder);
    const socketFolder = createSocketFolder(user);
    const options = { folder, socketFolder, program: binaries.postgres, user, durable, logger };
    const { lost, stop } = keepRunning(await runPostgres(options), options);
    logger.debug({ folder, socketFolder }, 'embedded PostgreSQL started');
    return {
      url: databaseUrl(socketFolder, 'jobcell'),
      lost,
      stop: async () => {
        await stop();
        lock.close();
      },
    };
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** Starts the database again, at the same place, whenever it ends without having been told to. */
function keepRunning(first: PostgresProcess, options: PostgresOptions): Pick<EmbeddedPostgres, 'lost' | 'stop'> {
  const { logger, socketFolder } = options;
  const lost = Promise.withResolvers<JobcellError>();
  let running = first;
  let stopping = false;

  async function watch(): Promise<void> {
    let inRow = 0;
    for (;;) {
      const startedAt = performance.now();
      const { reason, lastLines } = await running.ended;
      if (stopping) return;
      if (performance.now() - startedAt > stableMs) inRow = 0;
      logger.error({ reason, lastLines }, 'the embedded PostgreSQL ended; it is started again');
      let why = lastLines.join('\n') || reason;
      for (let started = false; !started; inRow++) {
        if (inRow === restarts) return giveUp(why);
        await sleep(restartDelayMs * 2 ** inRow);
        if (stopping) return;
        try {
          running = await startAgain(options);
          started = true;
        } catch (error) {
          why = error instanceof Error ? error.message : String(error);
          logger.error({ err: error }, 'the embedded PostgreSQL could not be started again');
        }
      }
      logger.warn('the embedded PostgreSQL runs again');
    }
  }

  function giveUp(why: string): void {
    rmSync(socketFolder, { recursive: true, force: true });
    const detail =
      `The embedded PostgreSQL ended by itself ${restarts + 1} times in a row, at last with: ${why}\n` +
      `Find the cause and start jobcell again; the data is in ${options.folder}.`;
    lost.resolve(new JobcellError('UNAVAILABLE', detail));
  }

  const watching = watch();
  return {
    lost: lost.promise,
    async stop() {
      stopping = true;
      await running.stop();
      // It may just have been starting again.
      await watching;
      await running.stop();
    },
  };
}

async function startAgain(options: PostgresOptions): Promise<PostgresProcess> {
  await awaitQuietFolder(options.folder);
  // Its keeper has removed it, unless that was killed.
  rmSync(options.socketFolder, { recursive: true, force: true });
  mkdirSync(options.socketFolder, { mode: 0o700 });
  giveTo(options.user, options.socketFolder);
  return runPostgres(options);
}

function createSocketFolder(user: DatabaseUser): string {
  const parent = user.ids.uid === undefined && tmpdir().length <= socketFolderChars ? tmpdir() : '/tmp';
  // mkdtemp makes it with mode 0700.
  const folder = mkdtempSync(join(parent, 'jobcell-pg-'));
  giveTo(user, folder);
  return folder;
}

function giveTo({ ids }: DatabaseUser, folder: string): void {
  if (ids.uid !== undefined) chownSync(folder, ids.uid, ids.gid);
}
