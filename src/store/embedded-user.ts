import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { JobcellError } from '../errors.ts';

/** The system user that PostgreSQL runs under. `ids` is empty for the user of this process. */
export interface DatabaseUser {
  name: string;
  ids: { uid: number; gid: number } | Record<string, never>;
}

const accountName = 'postgres';
const environment = { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin:/usr/bin:/bin` };

/** Name of the system user this process runs under; PostgreSQL lets exactly this user in. */
export function ownName(): string {
  try {
    return userInfo().username;
  } catch (cause) {
    throw new JobcellError(
      'UNAVAILABLE',
      `User id ${process.getuid?.()} has no entry in /etc/passwd, and PostgreSQL refuses to run under such a user. Add one, or set DATABASE_URL.`,
      { cause },
    );
  }
}

/**
 * PostgreSQL refuses to run as root, so a root process runs it under the owner of the existing database folder, or
 * under the user `postgres`, which is created if missing. Everybody else runs it under their own name.
 *
 * @throws JobcellError UNAVAILABLE when the folder belongs to somebody else, or no such user can be had.
 */
export function databaseUser(folder: string): DatabaseUser {
  const owner = statSync(folder, { throwIfNoEntry: false });
  const uid = process.getuid?.();
  if (uid !== 0) {
    if (owner !== undefined && owner.uid !== uid) {
      throw new JobcellError(
        'UNAVAILABLE',
        `The database folder ${folder} belongs to user id ${owner.uid}, this process runs as ${uid}. ` +
          'Start jobcell as the user who created it, give the folder to this user, or choose another JOBCELL_DATA_DIR.',
      );
    }
    return { name: ownName(), ids: {} };
  }
  if (owner !== undefined && owner.uid !== 0) {
    return { name: `with id ${owner.uid}`, ids: { uid: owner.uid, gid: owner.gid } };
  }
  return { name: accountName, ids: lookUp() ?? create() };
}

function lookUp(): { uid: number; gid: number } | undefined {
  const [uid, gid] = ['-u', '-g'].map((flag) => {
    const run = spawnSync('id', [flag, accountName], { env: environment, encoding: 'utf8' });
    return run.status === 0 ? Number(run.stdout) : undefined;
  });
  return uid === undefined || gid === undefined ? undefined : { uid, gid };
}

function create(): { uid: number; gid: number } {
  spawnSync('groupadd', ['--system', accountName], { env: environment });
  const run = spawnSync(
    'useradd',
    [
      '--system',
      '--gid',
      accountName,
      '--no-create-home',
      '--home-dir',
      '/nonexistent',
      '--shell',
      '/usr/sbin/nologin',
      accountName,
    ],
    { env: environment, encoding: 'utf8' },
  );
  // Another process may have created it in the meantime, so what counts is whether it exists now.
  const ids = lookUp();
  if (ids !== undefined) return ids;
  throw new JobcellError(
    'UNAVAILABLE',
    `PostgreSQL does not run as root, and the user ${accountName} could not be created: ` +
      `${run.error?.message ?? run.stderr.trim()}. Create that user, start jobcell as a plain user, or set DATABASE_URL.`,
  );
}
