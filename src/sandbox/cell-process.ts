import { type ChildProcess, fork } from 'node:child_process';
import { closeSync, openSync, readSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FromCell, ToCell } from './wire.ts';

/** How a cell's process ended. */
export interface CellExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** The end of what it wrote to stderr, for diagnosis and to tell why V8 gave up. */
  stderr: string;
}

/** The server's handle on one child process. */
export interface CellProcess {
  readonly pid: number;
  send(message: ToCell): void;
  /** SIGKILL: the one thing that surely ends a cell. */
  kill(): void;
  readonly exit: Promise<CellExit>;
  readonly alive: boolean;
  /** Resident memory in bytes, `shared` being what other processes share; zeros once the process is gone. */
  memory(): { rss: number; own: number };
  /** CPU time of all its threads so far, ms, in steps of 10; 0 once it is gone. */
  cpuMs(): number;
}

const stderrKept = 8 * 1024;
const pageBytes = 4096;
/** USER_HZ is 100 on every Linux that Node runs on. */
const tickMs = 10;

/**
 * Forks a cell: an empty environment, Node's permission model, no standard streams but a captured stderr.
 * `packageRoot` holds dist/ and node_modules/, the only folders it may read from.
 */
export function forkCell(packageRoot: string, onMessage: (message: FromCell) => void): CellProcess {
  const readable = [
    join(packageRoot, 'dist', '/'),
    join(packageRoot, 'package.json'),
    join(packageRoot, 'node_modules', 'isolated-vm', '/'),
    join(packageRoot, 'node_modules', 'node-gyp-build', '/'),
    // The addon loader asks whether this is a musl system; the memory sample reads /proc/self.
    '/etc/alpine-release',
    '/proc/self/',
  ];
  const child = fork(join(packageRoot, 'dist', 'cell.js'), [], {
    cwd: '/',
    env: {},
    execPath: process.execPath,
    execArgv: [
      '--no-node-snapshot',
      '--permission',
      '--allow-addons',
      ...readable.map((path) => `--allow-fs-read=${path}`),
      '--no-warnings',
    ],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    serialization: 'json',
  });
  const { pid = 0 } = child;
  const exit = Promise.withResolvers<CellExit>();
  let alive = true;
  let over = false;
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-stderrKept);
  });
  child.on('message', (message) => onMessage(message as FromCell));
  child.on('error', (error) => {
    stderr = `${stderr}\n${error.message}`;
    if (pid === 0) gone(null, null);
  });
  // From 'exit' on it can be given nothing; 'close' comes after its last message and the last of stderr have been read.
  child.on('exit', () => {
    alive = false;
  });
  child.on('close', gone);
  const statm = openProc(pid, 'statm', memoryOf);
  const stat = openProc(pid, 'stat', cpuOf);
  preferForOom(pid);

  function gone(code: number | null, signal: NodeJS.Signals | null): void {
    if (over) return;
    over = true;
    alive = false;
    statm?.close();
    stat?.close();
    exit.resolve({ code, signal, stderr: stderr.trim() });
  }

  return {
    pid,
    send: (message) => sendTo(child, message),
    kill: () => void child.kill('SIGKILL'),
    exit: exit.promise,
    get alive() {
      return alive;
    },
    memory: () => (alive ? (statm?.read() ?? nothing) : nothing),
    cpuMs: () => (alive ? (stat?.read() ?? 0) : 0),
  };
}

const nothing = { rss: 0, own: 0 };

/** A cell that is going down cannot be told anything any more; its exit tells the rest. */
function sendTo(child: ChildProcess, message: ToCell): void {
  if (child.connected) child.send(message, () => {});
}

/** A file of the process's figures, kept open: one read each, a few microseconds. */
function openProc<T>(pid: number, file: string, parse: (text: string) => T) {
  let fd: number;
  try {
    fd = openSync(`/proc/${pid}/${file}`, 'r');
  } catch {
    return undefined;
  }
  const buffer = Buffer.alloc(1_024);
  return {
    read() {
      try {
        return parse(buffer.toString('latin1', 0, readSync(fd, buffer, 0, buffer.length, 0)));
      } catch {
        // ESRCH: the process has just ended.
        return undefined;
      }
    },
    close: () => closeSync(fd),
  };
}

function memoryOf(statm: string): { rss: number; own: number } {
  const [, resident, shared] = statm.split(' ');
  return { rss: Number(resident) * pageBytes, own: (Number(resident) - Number(shared)) * pageBytes };
}

/** User and system time, fields 14 and 15; the name before them is in brackets and may hold anything. */
function cpuOf(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

/** Should the kernel run out of memory, it takes a cell, not the server or the database. */
function preferForOom(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, '1000');
  } catch {
    // Not on Linux, or not ours to change: the kernel then goes by size, which also points at a cell.
  }
}
