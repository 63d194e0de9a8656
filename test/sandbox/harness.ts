import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { createSandbox } from '../../src/sandbox/create-sandbox.ts';
import type {
  BodyLimits,
  BodyReplay,
  BodyType,
  HostAnswer,
  HostCall,
  LogLine,
  ScriptFormat,
} from '../../src/sandbox/protocol.ts';
import type { BodyEnd, CellLease, Sandbox } from '../../src/sandbox/sandbox.ts';

export const packageRoot = fileURLToPath(new URL('../..', import.meta.url));

/** A real sandbox, with cells forked from dist/cell.js. */
export async function startSandbox(
  options: { cells?: number; prewarmed?: number; memoryMb?: number } = {},
): Promise<Sandbox> {
  const sandbox = createSandbox({
    cells: 4,
    prewarmed: 2,
    memoryMb: 8_000,
    packageRoot,
    logger: pino({ level: 'silent' }),
    ...options,
  });
  await sandbox.start();
  return sandbox;
}

export interface RunOptions {
  args?: unknown;
  format?: ScriptFormat;
  type?: BodyType;
  invoker?: unknown;
  limits?: Partial<BodyLimits>;
  fileName?: string;
  sourceMap?: string;
  /** Of the script itself; the job functions that it calls have none. */
  replay?: BodyReplay | null;
  /** Scripts of the job functions that it may call. */
  jobs?: Record<string, string>;
  /** Calls are not kept: of a script that makes many, with much in them. */
  forgetCalls?: boolean;
  /** Answers a call that is no job function of `jobs`. */
  onCall?: (call: HostCall) => Promise<HostAnswer> | HostAnswer;
}

export interface RunResult {
  end: BodyEnd;
  calls: HostCall[];
  /** Every line of the body itself, in order. */
  logs: LogLine[];
}

/** Runs a script, and the job functions it calls as nested bodies, in a lease. */
export async function runIn(lease: CellLease, script: string, options: RunOptions = {}): Promise<RunResult> {
  const calls: HostCall[] = [];
  const logs: LogLine[] = [];
  const format = options.format ?? formatOf(script);
  const end = await lease.run({
    label: 'main',
    type: options.type ?? 'JOB',
    script: {
      hash: createHash('sha256').update(script).digest('hex'),
      format,
      fileName: options.fileName ?? 'main@1.js',
    },
    loadSource: () => Promise.resolve(script),
    loadSourceMap: () => Promise.resolve(options.sourceMap ?? null),
    args: JSON.stringify(options.args ?? {}),
    context: JSON.stringify({ invoker: options.invoker ?? null }),
    limits: { memoryMb: 256, cpuMs: 20_000, wallMs: 60_000, ...options.limits },
    replay: options.replay ?? null,
    onCall: async (call) => {
      if (options.forgetCalls !== true) calls.push(call);
      logs.push(...call.logs);
      const [name] = JSON.parse(call.args) as [string];
      const job = call.op === 'execJobFunction' ? options.jobs?.[name] : undefined;
      if (job !== undefined) {
        const nested = await runIn(lease, job, {
          ...options,
          replay: null,
          fileName: `${name}@1.js`,
          args: JSON.parse(call.payload ?? '{}'),
          format: formatOf(job),
        });
        return answerOf(nested.end);
      }
      if (options.onCall !== undefined) return options.onCall(call);
      return {
        error: { name: 'Error', message: `No job function ${name}`, stack: '', code: 'JOB_FUNCTION_NOT_FOUND' },
      };
    },
    onLogs: (lines) => logs.push(...lines),
  });
  logs.push(...end.logs);
  return { end, calls, logs };
}

/** Good enough for the scripts of these tests; `check` does it properly. */
const formatOf = (script: string): ScriptFormat => (/\bexport\b/.test(script) ? 'module' : 'script');

function answerOf(end: BodyEnd): HostAnswer | Promise<HostAnswer> {
  if (end.type === 'returned') return { value: end.result };
  if (end.type === 'failed') return { error: end.error };
  // What the engine does with a run that is gone: it never answers.
  return new Promise(() => {});
}

/** Runs a script in a cell of its own. */
export async function runOnce(sandbox: Sandbox, script: string, options: RunOptions = {}): Promise<RunResult> {
  const lease = await sandbox.acquire({ workspaceId: 'test' });
  try {
    return await runIn(lease, script, options);
  } finally {
    await lease.release();
  }
}

/** What `main` returned. */
export function resultOf({ end }: { end: BodyEnd }): unknown {
  if (end.type !== 'returned') throw new Error(`The body did not return: ${JSON.stringify(end)}`);
  return JSON.parse(end.result);
}

export function failureOf({ end }: { end: BodyEnd }): Extract<BodyEnd, { type: 'failed' }> {
  if (end.type !== 'failed') throw new Error(`The body did not fail: ${JSON.stringify(end)}`);
  return end;
}

export const messages = (logs: LogLine[]): string[] => logs.map((line) => line.message);

/** What the first run of a body is given: a key, and nothing recorded. */
export const newReplay = ({ run = 1 } = {}): BodyReplay => ({
  chanceKey: Buffer.alloc(32, 7).toString('base64'),
  run,
  segments: [],
});

/** What a replay is given after a run that made these calls. */
export const replayOf = (calls: HostCall[], run = 1): BodyReplay => ({
  ...newReplay({ run }),
  segments: calls.map(({ clock }) => ({ run, clock })),
});
