import { availableParallelism, totalmem } from 'node:os';
import { z } from 'zod';
import { JobcellError } from './errors.ts';
import { limits } from './limits.ts';
import { secretKeyChars } from './secret-key.ts';

const MiB = 1024 * 1024;
const memoryMb = Math.floor(totalmem() / MiB);
/** Half of the machine for scripts; the other half is PostgreSQL's, the server's and the system's. */
const defaultMemoryMb = Math.max(512, Math.floor(memoryMb / 2));
/** An idle or blocked cell holds about 12 MB of its own (sandbox.md), a busy small one 64 MB. */
const defaultCells = Math.max(64, Math.min(512, Math.floor(defaultMemoryMb / 64)));

/** An eighth of the cells; of few cells two, or one, and of a single one none. */
const reservedOf = (cells: number): number => Math.max(Math.min(2, cells >> 1), cells >> 3);

const whole = (min: number, max: number) => {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.coerce.number({ error }).int({ error }).min(min, { error }).max(max, { error });
};

/** Every variable of the environment (http-api.md, "Start and configuration"), by its name. */
export const configSchema = z.object({
  JOBCELL_HOST: z.string().min(1).default('127.0.0.1'),
  JOBCELL_PORT: whole(0, 65_535).default(4700),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must begin with postgres:// or postgresql://')
    .optional(),
  JOBCELL_DATA_DIR: z.string().min(1).default('.jobcell'),
  JOBCELL_ADMIN_TOKEN: z.string().min(16, 'must have at least 16 characters').optional(),
  JOBCELL_SECRET_KEY: z
    .string()
    .transform((text) => text.split(',').map((key) => key.trim()))
    .refine((keys) => keys.every((key) => key.length >= secretKeyChars), {
      error: `must be a key of at least ${secretKeyChars} characters, or several with commas between them`,
    })
    .optional(),
  JOBCELL_CELLS: whole(1, 10_000).default(defaultCells),
  JOBCELL_MEMORY_MB: whole(256, 10_000_000).default(defaultMemoryMb),
  JOBCELL_TAILORDB_CONNECTIONS: whole(1, 10_000).default(32),
  JOBCELL_LEASE_S: whole(5, 3_600).default(15),
  JOBCELL_FUNCTION_CPU_MS: whole(1, limits.functionWallMs).default(limits.functionCpuMs),
  JOBCELL_JOB_FUNCTION_CPU_MS: whole(1, limits.jobFunctionWallMs).default(limits.jobFunctionCpuMs),
  JOBCELL_REPLAY: z.enum(['auto', 'always']).default('auto'),
  JOBCELL_FETCH_ALLOW: z.string().default(''),
  JOBCELL_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
});

export interface Config {
  host: string;
  port: number;
  databaseUrl: string | undefined;
  dataDir: string;
  adminToken: string | undefined;
  /** What encrypts secrets, the current one first; undefined: not configured. */
  secretKeys: string[] | undefined;
  cells: number;
  /** Cells that workflow runs leave to functions. */
  reservedCells: number;
  /** Cells kept warm while idle. */
  prewarmedCells: number;
  memoryMb: number;
  /** Connections of scripts to their databases at once. */
  tailordbConnections: number;
  leaseMs: number;
  functionCpuMs: number;
  jobFunctionCpuMs: number;
  replay: 'auto' | 'always';
  /** Private addresses that scripts may fetch from: text that `addressRules` reads. */
  fetchAllow: string;
  logLevel: z.infer<typeof configSchema>['JOBCELL_LOG_LEVEL'];
}

/** @throws JobcellError BAD_REQUEST that names each wrong variable. */
export function readConfig(environment: Record<string, string | undefined>): Config {
  // An empty variable is the same as an unset one: compose files and CI systems write them.
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const parsed = configSchema.safeParse(given);
  if (!parsed.success) {
    const errors = parsed.error.issues.map((issue) => ({ path: issue.path.join('.'), message: issue.message }));
    const list = errors.map((error) => `${error.path}: ${error.message}`).join('; ');
    throw new JobcellError('BAD_REQUEST', `The configuration is not valid: ${list}.`, { errors });
  }
  const env = parsed.data;
  return {
    host: env.JOBCELL_HOST,
    port: env.JOBCELL_PORT,
    databaseUrl: env.DATABASE_URL,
    dataDir: env.JOBCELL_DATA_DIR,
    adminToken: env.JOBCELL_ADMIN_TOKEN,
    secretKeys: env.JOBCELL_SECRET_KEY,
    cells: env.JOBCELL_CELLS,
    reservedCells: reservedOf(env.JOBCELL_CELLS),
    prewarmedCells: Math.min(env.JOBCELL_CELLS, Math.max(4, availableParallelism() * 3)),
    memoryMb: env.JOBCELL_MEMORY_MB,
    tailordbConnections: env.JOBCELL_TAILORDB_CONNECTIONS,
    leaseMs: env.JOBCELL_LEASE_S * 1_000,
    functionCpuMs: env.JOBCELL_FUNCTION_CPU_MS,
    jobFunctionCpuMs: env.JOBCELL_JOB_FUNCTION_CPU_MS,
    replay: env.JOBCELL_REPLAY,
    fetchAllow: env.JOBCELL_FETCH_ALLOW,
    logLevel: env.JOBCELL_LOG_LEVEL,
  };
}
