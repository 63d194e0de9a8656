/** Real servers for a benchmark, `jobcell serve` as built, and a client of their HTTP interface. */
import { mkdtempSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { launch } from '../../test/support/server-process.ts';

const adminToken = 'bench-token-of-this-run-only';

export interface BenchServer {
  url: string;
  pid: number;
  stop(): Promise<void>;
}

/** Starts a server with its defaults on this database. `folder` is for its files. */
export async function startServer(
  databaseUrl: string,
  folder: string,
  env: Record<string, string> = {},
): Promise<BenchServer> {
  const { url, child, end, logs } = await launch({
    ...process.env,
    DATABASE_URL: databaseUrl,
    JOBCELL_HOST: '127.0.0.1',
    JOBCELL_PORT: '0',
    JOBCELL_ADMIN_TOKEN: adminToken,
    JOBCELL_DATA_DIR: mkdtempSync(join(folder, 'server-')),
    JOBCELL_LOG_LEVEL: 'warn',
    ...env,
  });
  return {
    url,
    pid: child.pid!,
    stop: async () => {
      child.kill('SIGTERM');
      const { code } = await end;
      if (code !== 0) throw new Error(`The server ended with ${code}. It wrote:\n${logs()}`);
    },
  };
}

export interface Client {
  /** Sends a request and answers its body. @throws Error for any status but 2xx, and what came with it. */
  send<T>(method: string, path: string, body?: unknown): Promise<T>;
  close(): void;
}

/** A client that keeps up to so many connections open. */
export function openClient(url: string, connections: number, headers: Record<string, string> = {}): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const sent = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json', ...headers };
  return {
    send: <T>(method: string, path: string, body?: unknown) =>
      new Promise<T>((resolve, reject) => {
        const text = method === 'GET' ? '' : JSON.stringify(body ?? {});
        const options = { agent, method, headers: { ...sent, 'content-length': Buffer.byteLength(text) } };
        const asked = request(new URL(path, url), options, (response) => {
          let answer = '';
          response.setEncoding('utf8').on('data', (part: string) => {
            answer += part;
          });
          response.on('end', () => {
            const status = response.statusCode ?? 0;
            if (status >= 200 && status < 300) resolve(JSON.parse(answer) as T);
            else reject(new Error(`${method} ${path}: ${status} ${answer}`));
          });
        });
        asked.on('error', reject);
        asked.end(text);
      }),
    close: () => agent.destroy(),
  };
}

interface Execution {
  id: string;
  status: string;
}

/** Rare enough to cost nothing, and nothing beside the minute that such an execution takes. */
const pollMs = 250;

/** Starts an execution and waits for its end. @throws Error unless it succeeds. */
export async function runExecution(client: Client, workspace: string, workflow: string, args: unknown): Promise<void> {
  const path = `/v1/workspaces/${workspace}`;
  const start = `${path}/workflows/${workflow}/start?wait=60`;
  const answer = await client.send<Execution | { executionId: string }>('POST', start, { args });
  // One that takes longer than the longest wait is answered by its id alone.
  const id = 'executionId' in answer ? answer.executionId : answer.id;
  let execution: Execution = 'executionId' in answer ? { id, status: 'RUNNING' } : answer;
  while (!['SUCCESS', 'FAILED', 'CANCELED'].includes(execution.status)) {
    await sleep(pollMs);
    execution = await client.send<Execution>('GET', `${path}/executions/${id}`);
  }
  if (execution.status !== 'SUCCESS') throw new Error(JSON.stringify(execution));
}

/** Puts a workspace with job functions, and a workflow of the same name for each of `workflows`. */
export async function putWorkspace(
  client: Client,
  workspace: string,
  jobFunctions: Record<string, string>,
  workflows: string[],
): Promise<void> {
  const path = `/v1/workspaces/${workspace}`;
  await client.send('PUT', path);
  for (const [name, script] of Object.entries(jobFunctions)) {
    await client.send('PUT', `${path}/job-functions/${name}`, { script });
  }
  for (const name of workflows) await client.send('PUT', `${path}/workflows/${name}`, { mainJobFunction: name });
}
