import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { JobcellError } from '../errors.ts';
import type { Binaries } from './embedded-binaries.ts';
import type { DatabaseUser } from './embedded-user.ts';

/** Major version of the packaged PostgreSQL; a data folder of another one cannot be opened. */
const majorVersion = '18';

/**
 * How PostgreSQL is told its data folder. It is started *in* the folder, so it need not be able to enter the folders
 * above (a clone in /root, mode 0700); only this name survives its making the path absolute.
 */
export const dataFolderArgument = '/proc/self/cwd';

/**
 * Takes the data folder for this process: an abstract socket named by the folder's identity, which the kernel frees
 * when the process ends, however it ends.
 *
 * @throws JobcellError CONFLICT when another server has it.
 */
export async function lockFolder(dataDir: string): Promise<Server> {
  const { dev, ino } = statSync(dataDir);
  const lock = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    lock.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') return reject(error);
      const detail =
        `Another jobcell server runs on the data folder ${dataDir}. Stop it or choose another JOBCELL_DATA_DIR; ` +
        'to run several servers on one database, set DATABASE_URL for all of them.';
      reject(new JobcellError('CONFLICT', detail));
    });
    lock.listen(`\0jobcell-data-${dev}-${ino}`, resolve);
  });
  lock.unref();
  return lock;
}

/**
 * Waits until no process of an earlier database works in the folder: after its server was killed it still writes its
 * last checkpoint. Then removes a `postmaster.pid` whose process id meanwhile belongs to another program, which
 * PostgreSQL itself would take for a running server.
 */
export async function awaitQuietFolder(folder: string): Promise<void> {
  const deadline = Date.now() + 30_000;
  for (let pids = processesIn(folder); pids.length > 0; pids = processesIn(folder)) {
    if (Date.now() > deadline) {
      throw new JobcellError(
        'CONFLICT',
        `A PostgreSQL server still runs in ${folder} (process ${pids.join(', ')}). Stop it, or set DATABASE_URL.`,
      );
    }
    await sleep(50);
  }
  rmSync(join(folder, 'postmaster.pid'), { force: true });
}

/** Ids of the processes whose working folder is `folder`, which every PostgreSQL process keeps. */
function processesIn(folder: string): number[] {
  const wanted = statSync(folder);
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      const cwd = statSync(`/proc/${pid}/cwd`);
      return (
        cwd.ino === wanted.ino && cwd.dev === wanted.dev && readFileSync(`/proc/${pid}/comm`, 'utf8') === 'postgres\n'
      );
    } catch {
      // It ended meanwhile, or belongs to another user: then it is no database of ours.
      return false;
    }
  });
}

/**
 * Makes the database in `folder` where there is none yet. It is made beside its place and renamed, so an interrupted
 * start leaves nothing half done.
 */
export async function createDatabaseFolder(folder: string, binaries: Binaries, user: DatabaseUser, durable: boolean) {
  if (existsSync(folder)) return requireVersion(folder);
  const draft = `${folder}.new`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  if (user.ids.uid !== undefined) chownSync(draft, user.ids.uid, user.ids.gid);
  const child = spawn(
    binaries.initdb,
    [
      ...['--pgdata', dataFolderArgument, '--username', 'jobcell', '--auth-local', 'peer', '--auth-host', 'reject'],
      ...['--encoding', 'UTF8', '--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'],
      ...['--no-instructions', ...(durable ? [] : ['--no-sync'])],
    ],
    { ...user.ids, cwd: draft, env: databaseEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const { code, output } = await finished(child);
  if (code !== 0) {
    throw new JobcellError('UNAVAILABLE', `The embedded database could not be created in ${folder}: ${output.trim()}`);
  }
  renameSync(draft, folder);
}

function requireVersion(folder: string): void {
  const version = readFileSync(join(folder, 'PG_VERSION'), 'utf8').trim();
  if (version === majorVersion) return;
  throw new JobcellError(
    'UNAVAILABLE',
    `The database in ${folder} was made by PostgreSQL ${version}, this jobcell brings ${majorVersion}. ` +
      'Dump it with the older jobcell and load it into a new data folder (docs/deployment.md), or set DATABASE_URL.',
  );
}

/** Nothing of our own environment reaches the database: it holds tokens. */
export const databaseEnvironment = () => ({ LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' });

async function finished(child: ChildProcess): Promise<{ code: number | null; output: string }> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}
