import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, inject } from 'vitest';
import { createDatabase } from './database.ts';
import { poolMismatches } from './pools.ts';
import { launch } from './server-process.ts';

export interface ServerOptions {
  /** Connection string; a new database by default. */
  databaseUrl?: string;
  /** Further variables, such as JOBCELL_REPLAY. Undefined takes a variable away. */
  env?: Record<string, string | undefined>;
}

/** A real server process: `jobcell serve` on a free port. `url` and `pid` change with `restart()`. */
export interface TestServer {
  readonly url: string;
  readonly adminToken: string;
  readonly databaseUrl: string;
  readonly dataDir: string;
  readonly pid: number;
  /** Everything it wrote to stderr so far. */
  logs(): string;
  /** Everything it wrote to stdout so far. */
  output(): string;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again after `stop()` or `kill()` (or stops it first), on the same database and data folder. */
  restart(): Promise<void>;
}

/** Of every server, unless a test gives it another. */
export const secretKey = 'the key of every server in these tests';

/** D30 promises 10; a busy machine gets more. */
const stopSeconds = 25;

/** Starts a server for this test file; it is stopped after the file's last test at the latest. */
export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const databaseUrl = options.databaseUrl ?? (await createDatabase());
  const adminToken = randomBytes(24).toString('hex');
  const dataDir = mkdtempSync(join(inject('runFolder'), 'data-'));
  const env = {
    ...process.env,
    DATABASE_URL: databaseUrl,
    JOBCELL_HOST: '127.0.0.1',
    JOBCELL_PORT: '0',
    JOBCELL_ADMIN_TOKEN: adminToken,
    JOBCELL_SECRET_KEY: secretKey,
    JOBCELL_DATA_DIR: dataDir,
    JOBCELL_LOG_LEVEL: process.env.JOBCELL_LOG_LEVEL ?? 'info',
    ...options.env,
  };
  let running = await launch(env);
  let killed = false;
  const stop = async (signal: 'SIGTERM' | 'SIGKILL') => {
    const { child, end, logs } = running;
    child.kill(signal);
    const timer = setTimeout(() => child.kill('SIGKILL'), stopSeconds * 1_000);
    const { code, signal: endedBy } = await end;
    clearTimeout(timer);
    if (signal === 'SIGTERM' && endedBy === 'SIGKILL' && !killed) {
      throw new Error(`The server did not end within ${stopSeconds} s. It wrote:\n${logs()}`);
    }
    return code;
  };
  const server: TestServer = {
    get url() {
      return running.url;
    },
    get pid() {
      return running.child.pid!;
    },
    adminToken,
    databaseUrl,
    dataDir,
    logs: () => running.logs(),
    output: () => running.output(),
    stop: () => stop('SIGTERM'),
    kill: async () => {
      killed = true;
      await stop('SIGKILL');
    },
    restart: async () => {
      await stop('SIGTERM');
      killed = false;
      running = await launch(env);
    },
  };
  afterAll(async () => {
    const mismatches = await poolMismatches(databaseUrl);
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
    expect(mismatches, 'pools whose counter is not the sum of what is held').toEqual([]);
    expect(await poolMismatches(databaseUrl), 'the same, after the stop').toEqual([]);
  });
  return server;
}
