import { accessSync, constants, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Logger } from 'pino';

/**
 * cgroup v2: the kernel's own bound on a cell, under our watchdogs (docs/security.md). Where the server's cgroup is its
 * own to divide, every cell gets one below it with `memory.max`; elsewhere the watchdogs are all there is.
 */
export interface CellCgroups {
  /** Puts a process into a cgroup of its own. Undefined when the kernel refuses; the cell then runs without one. */
  create(pid: number): CellCgroup | undefined;
}

interface CellCgroup {
  /** Sets `memory.max` so many bytes over what the cell holds now. @returns what it was, for `restore`. */
  limitGrowth(bytes: number): string;
  restore(max: string): void;
  /** Whether the kernel killed the process because it passed `memory.max`. */
  killedForMemory(): boolean;
  /** Once the process is gone. */
  remove(): void;
}

/** Where the kernel shows what; tests have their own. */
export interface CgroupSources {
  /** /proc/self */
  proc: string;
  pid: number;
}

const serverLeaf = 'jobcell-server';
const cellPrefix = 'jobcell-cell-';
const memory = 'memory';

/** Finds out, once, whether cells can have cgroups, and says so. */
export function openCellCgroups(
  logger: Logger,
  sources: CgroupSources = { proc: '/proc/self', pid: process.pid },
): CellCgroups | undefined {
  const found = findFolder(sources);
  if ('reason' in found) {
    logger.info(`cells have no memory.max of the kernel's, only jobcell's own watchdogs: ${found.reason}`);
    return undefined;
  }
  const { folder } = found;
  try {
    divide(folder, sources.pid);
    removeLeftovers(folder);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    logger.info(`cells have no memory.max of the kernel's, only jobcell's own watchdogs: ${reason}`);
    return undefined;
  }
  logger.info({ folder }, 'cells have a memory.max of the kernel, each in a cgroup of its own');
  return { create: (pid) => createCellCgroup(folder, pid, logger) };
}

/** The server's own cgroup of the v2 hierarchy, if it can be divided. */
function findFolder({ proc }: CgroupSources): { folder: string } | { reason: string } {
  const path = /^0::(.*)$/m.exec(readOr(join(proc, 'cgroup')))?.[1];
  if (path === undefined) return { reason: 'there is no cgroup v2 here' };
  const mount = mountsOf(readOr(join(proc, 'mountinfo'))).find(({ root }) => isBelow(root, path));
  if (mount === undefined) return { reason: 'the cgroup v2 hierarchy is not mounted' };
  const folder = join(mount.point, relative(mount.root, path));
  if (!wordsOf(join(folder, 'cgroup.controllers')).includes(memory)) {
    return { reason: `the memory controller is not available in ${folder}` };
  }
  try {
    accessSync(folder, constants.W_OK);
    accessSync(join(folder, 'cgroup.subtree_control'), constants.W_OK);
  } catch {
    return { reason: `${folder} cannot be written (systemd: Delegate=yes; a container: a writable cgroup namespace)` };
  }
  return { folder };
}

/**
 * Lets the children of the folder have the memory controller. A cgroup that has it for its children may hold no process
 * itself, so the server moves into a leaf first; nobody else is moved.
 */
function divide(folder: string, pid: number): void {
  const control = join(folder, 'cgroup.subtree_control');
  if (wordsOf(control).includes(memory)) return;
  // The root of the whole hierarchy has no type, and is exempt.
  if (readOr(join(folder, 'cgroup.type')) !== '') {
    const others = wordsOf(join(folder, 'cgroup.procs')).filter((word) => Number(word) !== pid);
    if (others.length > 0) {
      throw new Error(
        `${folder} holds ${others.length} other processes as well; start the server as the only one of its cgroup`,
      );
    }
    const leaf = join(folder, serverLeaf);
    mkdirSync(leaf, { recursive: true });
    writeFileSync(join(leaf, 'cgroup.procs'), String(pid));
  }
  writeFileSync(control, `+${memory}`);
}

/** Of a server that was killed. */
function removeLeftovers(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (name.startsWith(cellPrefix)) removeIfEmpty(join(folder, name));
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Still in use: then it is another server's, or goes with the next start.
  }
}

function createCellCgroup(parent: string, pid: number, logger: Logger): CellCgroup | undefined {
  const folder = join(parent, `${cellPrefix}${pid}`);
  const max = join(folder, 'memory.max');
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'cgroup.procs'), String(pid));
  } catch (error) {
    logger.warn({ err: error, pid }, 'a cell could not be put into a cgroup of its own');
    removeIfEmpty(folder);
    return undefined;
  }
  const set = (value: string) => {
    try {
      writeFileSync(max, value);
    } catch (error) {
      // The process may just have ended. Otherwise its watchdogs go on without the kernel.
      logger.debug({ err: error, pid }, 'memory.max could not be set');
    }
  };
  return {
    limitGrowth(bytes) {
      const before = readOr(max).trim() || 'max';
      set(String(Number(readOr(join(folder, 'memory.current'))) + bytes));
      return before;
    },
    restore: set,
    killedForMemory: () => /^oom_kill [1-9]/m.test(readOr(join(folder, 'memory.events'))),
    remove: () => removeIfEmpty(folder),
  };
}

/** Mounts of type cgroup2: `33 24 0:29 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw`. */
function mountsOf(mountinfo: string): { root: string; point: string }[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [, , , root, point, ...rest] = line.split(' ');
    return root !== undefined && point !== undefined && rest[rest.indexOf('-') + 1] === 'cgroup2'
      ? [{ root, point }]
      : [];
  });
}

const isBelow = (root: string, path: string) => root === '/' || path === root || path.startsWith(`${root}/`);
const wordsOf = (file: string) => readOr(file).split(/\s+/).filter(Boolean);

function readOr(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
