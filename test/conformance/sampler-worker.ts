/**
 * Watches a server's cells from outside, by /proc, in a thread of its own: what it says does not rest on what jobcell
 * says of itself. See `sampler.ts`.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { setPriority } from 'node:os';
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { Measurement, SamplerOrder } from './sampler.ts';

const { server, restRss } = workerData as { server: number; restRss: number | undefined };
const port = parentPort as MessagePort;
const intervalMs = 3;
const discoverMs = 50;
const cpuMs = 25;
const pageBytes = 4096;
/** The kernel's high-water mark is read only once a cell has grown so far. */
const growthOfInterest = 24 * 1024 * 1024;
/** Linux counts CPU time of a process in units of 10 ms. */
const tickMs = 10;

interface CellTrack {
  statm: number;
  pid: number;
  base: number;
  /** The high-water mark at the row's begin; it is of the process's whole life. */
  highBase: number;
  cpuBase: number;
  lastRss: number;
  peak: number;
  overSince: number | undefined;
  longestOver: number;
}

const cells = new Map<number, CellTrack>();
const seen = new Set<number>();
const buffer = Buffer.alloc(2048);
const pause = new Int32Array(new SharedArrayBuffer(4));
const now = () => performance.timeOrigin + performance.now();
/** The worst of the cells that have ended since the row began. */
let ended = { peak: 0, longestOver: 0 };
let order: Extract<SamplerOrder, { type: 'begin' }> | undefined;
let firstOver: number | undefined;
let hadToStop: number | undefined;
let serverBase = 0;
let serverPeak = 0;
let lastDiscovery = 0;
let lastCpu = 0;

try {
  // Linux: of this thread alone. Without the right to it the figures are only coarser.
  setPriority(-15);
} catch {}
const serverStatm = openSync(`/proc/${server}/statm`, 'r');

function obey(next: SamplerOrder): void {
  discover();
  if (next.type === 'rest') {
    const sizes = [...cells.values()].map(({ statm }) => residentOf(statm)).sort((a, b) => a - b);
    port.postMessage(sizes[sizes.length >> 1] ?? 0);
    return;
  }
  if (next.type === 'begin') {
    order = next;
    firstOver = undefined;
    hadToStop = undefined;
    serverBase = residentOf(serverStatm);
    serverPeak = serverBase;
    for (const cell of cells.values()) {
      cell.base = residentOf(cell.statm);
      cell.highBase = highWaterOf(cell.pid);
      cell.cpuBase = cpuOf(cell.pid);
      cell.peak = 0;
      cell.overSince = undefined;
      cell.longestOver = 0;
    }
    port.postMessage(null);
    return;
  }
  order = undefined;
  port.postMessage(measurement());
  ended = { peak: 0, longestOver: 0 };
}

function measurement(): Measurement {
  let { peak, longestOver } = ended;
  let left = 0;
  for (const cell of cells.values()) {
    peak = Math.max(peak, cell.peak);
    longestOver = Math.max(longestOver, cell.longestOver);
    left = Math.max(left, cell.lastRss - cell.base);
  }
  return {
    peakBytes: peak,
    overBoundMs: longestOver,
    firstOver: firstOver ?? null,
    hadToStop: hadToStop ?? null,
    serverBytes: serverPeak,
    serverGrownBytes: serverPeak - serverBase,
    leftBytes: left,
  };
}

function look(): void {
  if (order === undefined) return;
  const at = now();
  if (at - lastDiscovery > discoverMs) discover();
  const withCpu = at - lastCpu > cpuMs;
  if (withCpu) lastCpu = at;
  serverPeak = Math.max(serverPeak, residentOf(serverStatm));
  for (const cell of cells.values()) {
    const rss = residentOf(cell.statm);
    if (rss === 0) {
      forget(cell);
      continue;
    }
    cell.lastRss = rss;
    const grown = rss - cell.base;
    cell.peak = Math.max(cell.peak, grown);
    if (grown > growthOfInterest) {
      const high = highWaterOf(cell.pid);
      if (high > cell.highBase) cell.peak = Math.max(cell.peak, high - cell.base);
    }
    if (grown > order.limitBytes) firstOver ??= at;
    if (withCpu && cpuOf(cell.pid) - cell.cpuBase > order.cpuMs) {
      firstOver ??= at;
      hadToStop ??= at;
    }
    if (grown > order.boundBytes) {
      cell.overSince ??= at;
      hadToStop ??= at;
      cell.longestOver = Math.max(cell.longestOver, at - cell.overSince);
    } else {
      cell.overSince = undefined;
    }
  }
}

function forget(cell: CellTrack): void {
  cells.delete(cell.pid);
  closeSync(cell.statm);
  ended = { peak: Math.max(ended.peak, cell.peak), longestOver: Math.max(ended.longestOver, cell.longestOver) };
}

function discover(): void {
  lastDiscovery = now();
  const names = readdirSync('/proc');
  // The kernel gives the number of a process that has ended to another one.
  const there = new Set(names);
  for (const pid of seen) if (!there.has(String(pid))) seen.delete(pid);
  for (const name of names) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || seen.has(pid)) continue;
    try {
      if (parentOf(pid) !== server) {
        seen.add(pid);
        continue;
      }
      // Between fork and exec it still looks like the server.
      if (!readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('cell.js')) continue;
      seen.add(pid);
      const statm = openSync(`/proc/${pid}/statm`, 'r');
      const rss = residentOf(statm);
      // A cell that starts during a row has its row's base once it is ready: what all cells at rest have.
      cells.set(pid, {
        statm,
        pid,
        base: restRss ?? rss,
        highBase: 0,
        cpuBase: 0,
        lastRss: rss,
        peak: 0,
        overSince: undefined,
        longestOver: 0,
      });
    } catch {
      // It has just ended.
    }
  }
}

function read(file: number): string {
  return buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0));
}

function residentOf(statm: number): number {
  try {
    return Number(read(statm).split(' ')[1]) * pageBytes;
  } catch {
    return 0;
  }
}

const parentOf = (pid: number): number => Number(statOf(pid)[1]);

function cpuOf(pid: number): number {
  try {
    const fields = statOf(pid);
    return (Number(fields[11]) + Number(fields[12])) * tickMs;
  } catch {
    return 0;
  }
}

/** Fields of /proc/pid/stat from the third on; the second, a name, may hold anything. */
function statOf(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function highWaterOf(pid: number): number {
  try {
    return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

for (;;) {
  const message = receiveMessageOnPort(port);
  if (message !== undefined) obey(message.message as SamplerOrder);
  look();
  Atomics.wait(pause, 0, 0, order === undefined ? 20 : intervalMs);
}
