import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readConfig } from '../config.ts';
import { startServer } from '../main.ts';
import { packageRoot } from '../paths.ts';
import { type ApiClient, createApiClient, type Execution, type JournalRecord, type Run } from './api-client.ts';
import { createLiveView, statusMark, title } from './live-view.ts';
import { elapsed, treeLines } from './step-tree.ts';
import { cut, duration, padEnd, padStart, paint, table, width } from './terminal.ts';

const workspace = '/v1/workspaces/demo';
const order = {
  orderId: 'order-1042',
  customer: 'Ada Lovelace',
  items: [
    { sku: 'espresso-beans', quantity: 2 },
    { sku: 'burr-grinder', quantity: 1 },
    { sku: 'paper-filters', quantity: 4 },
  ],
};

/**
 * Starts a server on a throwaway database, uploads the job functions of examples/orders over the HTTP interface, runs
 * the order workflow before the reader's eyes and shows its journal. Nothing is left behind.
 */
export async function demo(): Promise<void> {
  print(`\n  ${paint('bold', 'jobcell demo')}  ${paint('dim', 'an order workflow on a throwaway server')}\n`);
  const dataDir = mkdtempSync(join(tmpdir(), 'jobcell-demo-'));
  // However it ends. After a signal the embedded database may still be about to end, and write; hence the retries.
  process.once('exit', () => rmSync(dataDir, { recursive: true, force: true, maxRetries: 10 }));
  let close: (() => Promise<void>) | undefined;
  let stopping = false;
  const stop = () => {
    // One Ctrl+C arrives several times: from the terminal, from npm and from scripts/run.mjs.
    if (stopping) return;
    stopping = true;
    if (process.stdout.isTTY) process.stdout.write('\x1b[?25h');
    if (close === undefined) process.exit(130);
    // The database and the sandboxes end with this process, so it need not wait for them for long.
    setTimeout(() => process.exit(130), 3_000);
    void close().finally(() => process.exit(130));
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  const log = process.env.JOBCELL_LOG_LEVEL ?? 'warn';
  const started = performance.now();
  doing('Starting PostgreSQL and the server');
  const server = await startServer(
    readConfig({ JOBCELL_PORT: '0', JOBCELL_DATA_DIR: dataDir, JOBCELL_LOG_LEVEL: log }),
  );
  close = () => server.close();
  try {
    done('PostgreSQL and server started', `${server.url}`, started);
    const api = createApiClient(server.url, server.adminToken);
    await upload(api);
    const runs = await runOrder(api);
    showOutcome(runs);
    if (runs.some(({ execution }) => execution.error !== null)) process.exitCode = 1;
  } catch (error) {
    // What was under way fails because of the signal, which ends the process.
    if (stopping) return;
    throw error;
  } finally {
    if (!stopping) await server.close();
  }
}

const print = (text: string) => process.stdout.write(`${text}\n`);

/** Says what goes on; `done` takes its place. */
function doing(what: string): void {
  if (process.stdout.isTTY) process.stdout.write(`  ${paint('dim', `… ${what}`)}`);
}

function done(what: string, note: string, since: number): void {
  if (process.stdout.isTTY) process.stdout.write('\r\x1b[2K');
  const line = `  ${paint('green', '✓')} ${padEnd(what, 32)} ${paint('dim', note)}`;
  print(`${padEnd(line, width() - 22)}${paint('dim', padStart(duration(performance.now() - since), 8))}`);
}

async function upload(api: ApiClient): Promise<void> {
  const since = performance.now();
  doing('Uploading job functions');
  await api.put(workspace, {});
  const folder = join(packageRoot, 'examples', 'orders');
  const files = readdirSync(folder).filter((file) => file.endsWith('.js'));
  for (const file of files) {
    await api.putScript(
      `${workspace}/job-functions/${basename(file, '.js')}`,
      readFileSync(join(folder, file), 'utf8'),
    );
  }
  await api.put(`${workspace}/workflows/order-workflow`, { mainJobFunction: 'process-order' });
  await api.put(`${workspace}/workflows/send-receipt`, { mainJobFunction: 'send-receipt' });
  done('Uploaded and checked', `${files.length} job functions, 2 workflows`, since);
  print('');
}

/** Runs the order and the workflow it starts, showing both while they run; answers both, ended. */
async function runOrder(api: ApiClient): Promise<Run[]> {
  const { executionId } = await api.post<{ executionId: string }>(`${workspace}/workflows/order-workflow/start`, {
    args: order,
  });
  const view = createLiveView();
  try {
    for (;;) {
      const runs = await readRuns(api, executionId);
      view.update(runs);
      if (runs.every(({ execution }) => execution.finishedAt !== null)) return runs;
      await sleep(25);
    }
  } finally {
    view.end();
  }
}

/** The execution, and those it has started. */
async function readRuns(api: ApiClient, id: string): Promise<Run[]> {
  const main = await readRun(api, id);
  const started = main.journal.flatMap(({ kind, result }) => {
    return kind === 'startWorkflow' && typeof result === 'string' ? [readRun(api, result)] : [];
  });
  return [main, ...(await Promise.all(started))];
}

async function readRun(api: ApiClient, id: string): Promise<Run> {
  // In this order: a journal that is read after the execution's end is whole.
  const execution = await api.get<Execution>(`${workspace}/executions/${id}`);
  const { items } = await api.get<{ items: JournalRecord[] }>(`${workspace}/executions/${id}/journal?limit=200`);
  return { execution, journal: items };
}

function showOutcome(runs: Run[]): void {
  const { result, error } = runs[0]!.execution;
  print(`  ${paint('bold', 'Result')}`);
  print(error === null ? resultLines(result) : `  ${paint('red', `${error.name}: ${error.message}`)}`);
  print(`\n  ${paint('bold', 'Journal')}  ${paint('dim', 'each row was committed before its caller saw the answer')}`);
  print(journalTable(runs));
  const next = [
    ['npm start', 'runs the server until it is stopped'],
    ['docs/getting-started.md', 'leads from here to a workflow of your own'],
  ];
  print(`\n${next.map(([what, why]) => `  ${padEnd(what!, 24)} ${paint('dim', why!)}`).join('\n')}\n`);
}

const resultLines = (result: unknown) => JSON.stringify(result, null, 2).replace(/^/gm, '  ');

function journalTable(runs: Run[]): string {
  const lines = runs.flatMap(treeLines);
  const nameLength = Math.max(...lines.map(({ branch, record }) => branch.length + title(record).length));
  const room = Math.max(20, width() - nameLength - 34);
  const rows = lines.map(({ record, branch }) => {
    const { status, runs: count, result, error } = record;
    const answer = error === null ? JSON.stringify(result) : `${error.name}: ${error.message}`;
    return [
      `${paint('dim', branch)}${title(record)}`,
      `${statusMark(status)} ${status}`,
      String(count),
      duration(elapsed(record)),
      paint(error === null ? 'dim' : 'red', cut(answer, room)),
    ];
  });
  const right = { align: 'right' } as const;
  return table(
    [
      { title: 'step' },
      { title: 'status' },
      { title: 'runs', ...right },
      { title: 'time', ...right },
      { title: 'answer' },
    ],
    rows,
  );
}
