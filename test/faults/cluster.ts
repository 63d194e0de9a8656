import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type DatabaseProxy, startDatabaseProxy } from '../support/database-proxy.ts';
import { cellsOf, launch, type ServerProcess } from '../support/server-process.ts';

/** One server process, and the proxy between it and the database. */
export interface Member {
  readonly name: string;
  readonly process: ServerProcess;
  readonly proxy: DatabaseProxy;
  /** The signal reaches the process; resolves when it has ended. */
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null>;
  /** Stops the process, or lets it go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void;
  restart(): Promise<void>;
  cells(): number[];
  /** What all its processes logged. */
  logs(): string;
}

export interface ClusterOptions {
  databaseUrl: string;
  /** For the servers' data folders. */
  folder: string;
  adminToken: string;
  leaseS: number;
  /** Cells of each server. */
  cells: number;
}

/** Several servers on one database, each behind a proxy of its own. */
export async function startCluster(count: number, options: ClusterOptions): Promise<Member[]> {
  const members: Member[] = [];
  try {
    // One first: the others would only wait for its migrations.
    members.push(await startMember('a', options));
    const others = Array.from({ length: count - 1 }, (_, index) => String.fromCharCode('b'.charCodeAt(0) + index));
    members.push(...(await Promise.all(others.map((name) => startMember(name, options)))));
    return members;
  } catch (error) {
    await stopCluster(members);
    throw error;
  }
}

export async function stopCluster(members: Member[]): Promise<void> {
  await Promise.all(members.map((member) => member.end('SIGKILL')));
  await Promise.all(members.map((member) => member.proxy.close()));
}

async function startMember(name: string, options: ClusterOptions): Promise<Member> {
  const proxy = await startDatabaseProxy(options.databaseUrl);
  // What a server does is told by its name: the claims in the database, for one.
  const url = new URL(proxy.url);
  url.searchParams.set('application_name', name);
  const dataDir = join(options.folder, name);
  mkdirSync(dataDir, { recursive: true });
  const env = {
    ...process.env,
    DATABASE_URL: url.href,
    JOBCELL_HOST: '127.0.0.1',
    JOBCELL_PORT: '0',
    JOBCELL_ADMIN_TOKEN: options.adminToken,
    JOBCELL_DATA_DIR: dataDir,
    JOBCELL_LEASE_S: String(options.leaseS),
    JOBCELL_CELLS: String(options.cells),
    JOBCELL_FETCH_ALLOW: '127.0.0.1',
    JOBCELL_LOG_LEVEL: 'info',
  };
  let running = await launch(env);
  let earlierLogs = '';
  return {
    name,
    proxy,
    get process() {
      return running;
    },
    async end(signal) {
      running.child.kill(signal);
      return (await running.end).code;
    },
    signal: (signal) => void running.child.kill(signal),
    async restart() {
      earlierLogs += running.logs();
      running = await launch(env);
    },
    cells: () => cellsOf(running.child.pid!),
    logs: () => earlierLogs + running.logs(),
  };
}
