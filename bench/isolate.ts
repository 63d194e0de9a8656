/**
 * The start of an isolate with all runtime globals installed (what a script does not touch stands behind lazy getters):
 * ms, resident MB, and how many a core makes and ends a second. Beside it: a bare isolate of isolated-vm with a context,
 * and a context of node:vm, which isolates nothing. Each in a process of its own.
 *
 * And one cell without a database, as the server uses it: a body in a warm cell, a host call there and back, and nested
 * steps in a row.
 */
import { pino } from 'pino';
import { limits } from '../src/limits.ts';
import { packageRoot } from '../src/paths.ts';
import { createSandbox } from '../src/sandbox/create-sandbox.ts';
import type { BodyEnd, BodyRequest, CellLease } from '../src/sandbox/sandbox.ts';
import { type Benchmark, type BenchmarkOptions, scaled } from './harness/benchmark.ts';
import { machine } from './harness/conditions.ts';
import { interleave, load } from './harness/load.ts';
import { startPeer } from './harness/peer.ts';
import { coreMs } from './harness/processes.ts';
import { figure, median, range, table, targets } from './harness/report.ts';
import { stepScript } from './harness/step-work.ts';
import type { IsolateKind, IsolateStart } from './peers/isolates.ts';

const kinds: Record<IsolateKind, string> = {
  jobcell: 'with the globals',
  bare: 'a bare isolate with a context',
  vm: 'a context of node:vm',
};

export const benchmark: Benchmark = {
  title: 'Isolate',
  async run(options) {
    const names = Object.keys(kinds) as IsolateKind[];
    const turns: Record<string, () => Promise<IsolateStart & { mb: number }>> = {};
    const peers = await Promise.all(names.map(async (kind) => ({ kind, peer: await startPeer('isolates.ts') })));
    for (const { kind, peer } of peers) {
      turns[kind] = async () => ({
        ...(await peer.ask<IsolateStart>('starts', { kind, count: scaled(500, options.short) })),
        mb: await memoryOf(kind, scaled(100, options.short)),
      });
    }
    const rounds = await interleave(options, turns);
    for (const { peer } of peers) await peer.stop();
    const of = (kind: IsolateKind, key: keyof IsolateStart | 'mb') => rounds[kind]!.map((round) => round[key]);
    const rows = names.map((kind) => [
      kinds[kind],
      median(of(kind, 'startMs')).toFixed(2),
      range(of(kind, 'startMs')),
      median(of(kind, 'mb')).toFixed(2),
      figure(1_000 / median(of(kind, 'coreMs'))),
    ]);
    const start = median(of('jobcell', 'startMs'));
    return [
      `\`npm run bench -- isolate\`, ${machine()}. Medians of ${options.rounds} interleaved rounds.`,
      '',
      ...table(['', 'start, ms', 'range', 'resident MB', 'made and ended per second and core'], rows),
      '',
      ...(await cellLines(options)),
      '',
      ...targets([
        {
          what: 'start',
          unit: 'ms',
          most: true,
          must: 2,
          goal: 1.4,
          moonshot: median(of('bare', 'startMs')) + 0.2,
          reached: start,
        },
        { what: 'memory', unit: 'MB', most: true, must: 2, goal: 1, reached: median(of('jobcell', 'mb')) },
      ]),
    ];
  },
};

/** In a process of its own each time, which has no memory of others that it could use again. */
async function memoryOf(kind: IsolateKind, count: number): Promise<number> {
  const peer = await startPeer('isolates.ts');
  const mb = await peer.ask<number>('memory', { kind, count });
  await peer.stop();
  return mb;
}

const scripts: Record<string, string> = {
  loop: `globalThis.main = ({ steps }) => {
    for (let n = 0; n < steps; n++) tailor.workflow.execJobFunction('step', { n });
    return null;
  };`,
  calls: `globalThis.main = ({ steps }) => {
    for (let n = 0; n < steps; n++) tailor.workflow.execJobFunction('echo', { n });
    return null;
  };`,
  step: stepScript,
};

/** One cell, whose host calls this process answers at once. */
async function cellLines(options: BenchmarkOptions): Promise<string[]> {
  const steps = scaled(500, options.short);
  const sandbox = createSandbox({
    cells: 1,
    prewarmed: 1,
    memoryMb: 2_000,
    packageRoot,
    logger: pino({ level: 'warn' }, pino.destination(2)),
  });
  await sandbox.start();
  const lease = await sandbox.acquire({ workspaceId: 'bench' });
  const run = async (name: string, count: number) =>
    resultOf(await lease.run(request(lease, name, { steps: count, n: 1 })));
  await run('loop', 20);
  await run('calls', 20);
  const rounds = await interleave(options, {
    'a body in a warm cell, ms': async () =>
      (await load(scaled(100, options.short), 1, () => run('step', 0))) / scaled(100, options.short),
    'a host call, there and back, ms': async () => (await load(1, 1, () => run('calls', steps))) / steps,
    'a nested step, ms': async () => (await load(1, 1, () => run('loop', steps))) / steps,
    'core time of the cell for it, ms': async () => {
      const before = coreMs(lease.pid);
      await run('loop', steps);
      return (coreMs(lease.pid) - before) / steps;
    },
  });
  await lease.release();
  await sandbox.stop();
  const rows = Object.entries(rounds).map(([what, values]) => [what, median(values).toFixed(2), range(values)]);
  return table(['one cell, no database', '', 'range'], rows);
}

function request(lease: CellLease, name: string, args: unknown): BodyRequest {
  return {
    label: name,
    type: 'JOB',
    script: { hash: name, format: 'script', fileName: `${name}@1.js` },
    loadSource: () => Promise.resolve(scripts[name]!),
    loadSourceMap: () => Promise.resolve(null),
    args: JSON.stringify(args),
    context: '{"invoker":null}',
    limits: {
      memoryMb: limits.jobFunctionMemoryMb,
      cpuMs: limits.jobFunctionCpuMs,
      wallMs: limits.jobFunctionWallMs,
    },
    replay: { chanceKey: Buffer.alloc(32).toString('base64'), run: 1, segments: [] },
    onCall: async (call) => {
      const [job] = JSON.parse(call.args) as [string];
      if (job === 'echo') return { value: call.payload ?? undefined };
      return { value: resultOf(await lease.run(request(lease, job, JSON.parse(call.payload ?? '{}')))) };
    },
    onLogs: () => {},
  };
}

function resultOf(end: BodyEnd): string {
  if (end.type !== 'returned') throw new Error(JSON.stringify(end));
  return end.result;
}
