/**
 * What an invocation of a hello-world costs over HTTP, `npm run bench -- invoke`: on a server of its own with an embedded
 * PostgreSQL that keeps its default durability. Then the same beside CPU hogs of another workspace on every cell that
 * it can get (fairness).
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const rounds = Number(process.env.BENCH_ROUNDS ?? 2_000);
const hogSeconds = 20;
const token = 'bench-token-of-this-run-only';
const folder = mkdtempSync(join(tmpdir(), 'jobcell-bench-'));
const server = spawn(process.execPath, [fileURLToPath(new URL('../dist/jobcell.js', import.meta.url)), 'serve'], {
  env: {
    ...process.env,
    DATABASE_URL: process.env.DATABASE_URL ?? '',
    JOBCELL_ADMIN_TOKEN: token,
    JOBCELL_DATA_DIR: folder,
    JOBCELL_PORT: '0',
    JOBCELL_LOG_LEVEL: 'warn',
    // Hogs must live as long as they are measured against.
    JOBCELL_FUNCTION_CPU_MS: '60000',
  },
  stdio: ['ignore', 'pipe', 'inherit'],
});
const url = await new Promise<string>((resolve, reject) => {
  server.stdout.setEncoding('utf8').on('data', (text: string) => {
    const ready = /listening on (\S+)/.exec(text);
    if (ready?.[1] !== undefined) resolve(ready[1]);
  });
  server.once('exit', (code) => reject(new Error(`The server ended with ${code}.`)));
});

interface Invoked {
  result: unknown;
  queueMs: number;
  runMs: number;
  usage: { wallMs: number; cpuMs: number };
}

function call<T>(agent: Agent, method: string, path: string, body: unknown): Promise<{ status: number; body: T }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      new URL(path, url),
      { agent, method, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' } },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as T }));
      },
    );
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });
}

const at = (sorted: number[], share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
const ms = (value: number) => value.toFixed(1).padStart(8);

/** Invokes `hello` over `connections` at once and prints the figures. */
async function measure(title: string, workspace: string, connections: number, count: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const path = `/v1/workspaces/${workspace}/functions/hello/invoke`;
  const total: number[] = [];
  const queue: number[] = [];
  const run: number[] = [];
  const failures = new Map<number, number>();
  let left = count;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (left-- > 0) {
        const sent = performance.now();
        const { status, body } = await call<Invoked>(agent, 'POST', path, { args: { name: 'Ada' } });
        if (status !== 200) {
          failures.set(status, (failures.get(status) ?? 0) + 1);
          continue;
        }
        total.push(performance.now() - sent);
        queue.push(body.queueMs);
        run.push(body.runMs);
      }
    }),
  );
  const seconds = (performance.now() - started) / 1_000;
  agent.destroy();
  for (const list of [total, queue, run]) list.sort((a, b) => a - b);
  const cells = [at(total, 0.5), at(total, 0.99), total.at(-1)!, at(queue, 0.5), at(queue, 0.99), at(run, 0.5)].map(ms);
  const failed = failures.size === 0 ? '' : `  failed: ${JSON.stringify([...failures])}`;
  console.log(`${title.padEnd(42)}${cells.join('')}${ms(total.length / seconds)}${failed}`);
}

const setup = new Agent({ keepAlive: true });
const put = async (path: string, body: unknown) => {
  const answer = await call(setup, 'PUT', path, body);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer));
};
const hello = { script: 'export const main = ({ name }) => ({ hello: name });' };
const hog = { script: 'export const main = ({ until }) => { while (Date.now() < until); return 1; };' };

try {
  for (const workspace of ['one', 'hogs', 'clean']) await put(`/v1/workspaces/${workspace}`, {});
  for (const workspace of ['one', 'clean']) await put(`/v1/workspaces/${workspace}/functions/hello`, hello);
  await put('/v1/workspaces/hogs/functions/hog', hog);
  await put('/v1/workspaces/hogs/job-functions/hog', hog);
  await put('/v1/workspaces/hogs/workflows/hog-flow', { mainJobFunction: 'hog' });

  const head = ['p50', 'p99', 'max', 'queue50', 'queue99', 'run50', 'per s'].map((name) => name.padStart(8)).join('');
  console.log(`${'hello-world over HTTP, ms'.padEnd(42)}${head}`);
  await measure('first (cells get warm)', 'one', 1, 100);
  await measure('1 connection', 'one', 1, rounds);
  await measure('16 connections, first (cells get warm)', 'one', 16, 500);
  await measure('16 connections', 'one', 16, rounds * 2);

  const until = Date.now() + hogSeconds * 1_000;
  const hogs = new Agent({ maxSockets: 200 });
  for (let i = 0; i < 100; i++)
    await call(setup, 'POST', '/v1/workspaces/hogs/workflows/hog-flow/start', { args: { until } });
  const functions = Array.from({ length: 60 }, () =>
    call(hogs, 'POST', '/v1/workspaces/hogs/functions/hog/invoke', { args: { until } }),
  );
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  await measure(`1 connection beside hogs on ${availableParallelism()} cores`, 'clean', 1, 20);
  await Promise.all(functions);
  hogs.destroy();
} finally {
  setup.destroy();
  server.kill('SIGTERM');
  await new Promise((resolve) => server.once('exit', resolve));
  rmSync(folder, { recursive: true, force: true });
}
