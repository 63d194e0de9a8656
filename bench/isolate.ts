/**
 * What one cell costs, without a database: `npm run bench -- isolate`.
 * Prints the start of an isolate with its globals, the round trip of a nested call, and steps a second in one cell.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ivm from 'isolated-vm';
import { pino } from 'pino';
import { limits } from '../src/limits.ts';
import { openIsolates } from '../src/sandbox/cell/isolates.ts';
import { createSandbox } from '../src/sandbox/create-sandbox.ts';
import type { BodyEnd, BodyRequest, CellLease } from '../src/sandbox/sandbox.ts';

const packageRoot = fileURLToPath(new URL('..', import.meta.url));
const steps = 500;
const chanceKey = Buffer.alloc(32).toString('base64');

const scripts: Record<string, string> = {
  loop: `export function main({ steps }) {
    let sum = 0;
    for (let i = 0; i < steps; i++) sum += tailor.workflow.execJobFunction('step', { i }).i;
    return { sum };
  }`,
  calls: `export function main({ steps }) {
    for (let i = 0; i < steps; i++) tailor.workflow.execJobFunction('echo', { i });
    return null;
  }`,
  step: 'export async function main(input) { return { i: input.i }; }',
};

function request(lease: CellLease, name: string, args: string): BodyRequest {
  const source = scripts[name] as string;
  return {
    label: name,
    type: 'JOB',
    script: { hash: name, format: 'module', fileName: `${name}@1.js` },
    loadSource: () => Promise.resolve(source),
    loadSourceMap: () => Promise.resolve(null),
    args,
    context: '{"invoker":null}',
    limits: {
      memoryMb: limits.jobFunctionMemoryMb,
      cpuMs: limits.jobFunctionCpuMs,
      wallMs: limits.jobFunctionWallMs,
    },
    replay: { chanceKey, run: 1, segments: [] },
    onCall: async (call) => {
      const [job] = JSON.parse(call.args) as [string];
      if (job === 'echo') return { value: call.payload ?? undefined };
      const end = await lease.run(request(lease, job, call.payload ?? '{}'));
      return { value: resultOf(end) };
    },
    onLogs: () => {},
  };
}

function resultOf(end: BodyEnd): string {
  if (end.type !== 'returned') throw new Error(JSON.stringify(end));
  return end.result;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

function isolateStart(): { boot: number; bare: number; heap: number } {
  const isolates = openIsolates(`${packageRoot}/dist/globals`);
  const rounds = 200;
  const mean = (work: () => ivm.Isolate) => {
    let total = 0;
    for (let i = 0; i < rounds; i++) {
      const start = performance.now();
      const isolate = work();
      total += performance.now() - start;
      isolate.dispose();
    }
    return total / rounds;
  };
  const bare = () => {
    const isolate = new ivm.Isolate({ memoryLimit: 256 });
    isolate.createContextSync();
    return isolate;
  };
  const booted = () => isolates.take(256).isolate;
  booted().dispose();
  mean(bare);
  const heapOf = (isolate: ivm.Isolate) => {
    const { used_heap_size, externally_allocated_size } = isolate.getHeapStatisticsSync();
    isolate.dispose();
    return used_heap_size + externally_allocated_size;
  };
  return { bare: mean(bare), boot: mean(booted), heap: heapOf(booted()) - heapOf(bare()) };
}

/** CPU time of a process so far, ms. */
function cpuOf(pid: number): number {
  const [, utime, stime] = /\) (?:\S+ ){11}(\d+) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? [];
  return (Number(utime) + Number(stime)) * 10;
}

const { bare, boot, heap } = isolateStart();
const sandbox = createSandbox({
  cells: 1,
  prewarmed: 1,
  memoryMb: 2_000,
  packageRoot,
  logger: pino({ level: 'warn' }),
});
await sandbox.start();
const lease = await sandbox.acquire({ workspaceId: 'bench' });
const run = (name: string, count: number) =>
  lease.run(request(lease, name, JSON.stringify({ steps: count }))).then(resultOf);
await run('loop', 100);
await run('calls', 100);
const single: number[] = [];
for (let i = 0; i < 100; i++) single.push(await timed(() => run('step', 0)));
single.sort((a, b) => a - b);
const calls = await timed(() => run('calls', steps));
const nested: number[] = [];
const cpuBefore = cpuOf(lease.pid);
for (let round = 0; round < 3; round++) nested.push(await timed(() => run('loop', steps)));
const cpu = (cpuOf(lease.pid) - cpuBefore) / (3 * steps);
nested.sort((a, b) => a - b);
const perStep = (nested[1] as number) / steps;
await lease.release();
await sandbox.stop();

console.log(`bare isolate with a context          ${bare.toFixed(2)} ms`);
console.log(`isolate with context and globals     ${boot.toFixed(2)} ms`);
console.log(`memory of the globals                ${(heap / 1024 / 1024).toFixed(2)} MB`);
console.log(`one body in a warm cell, p50         ${(single[50] as number).toFixed(2)} ms`);
console.log(`host call, there and back            ${((calls / steps) * 1_000).toFixed(0)} us`);
console.log(
  `nested step in one cell              ${perStep.toFixed(2)} ms (${Math.round(1_000 / perStep)} a second), ${cpu.toFixed(2)} ms CPU of the cell`,
);
