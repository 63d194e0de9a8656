/** What a benchmark ran on: the machine, what a flush to its disk takes, and how many commits PostgreSQL makes there. */
import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { BenchDatabase } from './database.ts';
import { figure, median } from './report.ts';

const flushes = 300;
const commitMs = 1_000;

export interface Conditions {
  /** A line of Markdown for each. */
  lines: string[];
  /** Commits of single-row inserts a second, by the number of clients. */
  commits: { one: number; many: number };
}

const manyClients = 32;

/** The machine, in a line. */
export const machine = (): string =>
  `${cpus().length} cores (${cpus()[0]?.model.trim() || 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GB, Linux ${kernel()}, Node ${process.versions.node}`;

const kernel = () => readFileSync('/proc/sys/kernel/osrelease', 'utf8').trim();

export async function conditionsOf(database: BenchDatabase): Promise<Conditions> {
  const url = await database.create('bench_conditions');
  const [version] = await database.query<{ server_version: string }>(url, 'show server_version');
  await database.query(url, 'create table bench_rows (id bigint generated always as identity primary key, text text)');
  const commits = { one: await commitsPerSecond(url, 1), many: await commitsPerSecond(url, manyClients) };
  return {
    commits,
    lines: [
      `- The machine: ${machine()}.`,
      `- A core: ${figure(additionsMs())} ms for 100 million additions in a loop; a machine that is throttled shows here.`,
      `- PostgreSQL ${version!.server_version}, the packaged one, \`fsync\` and \`synchronous_commit\` on, the same for all that is compared.`,
      `- The disk: ${figure(flushesPerSecond(database.folder))} flushes a second (\`fdatasync\` of 8 KiB in place, measured by this command: the package has no pg_test_fsync).`,
      `- The commit limit: ${figure(commits.one)} single-row inserts a second by 1 client, ${figure(commits.many)} by ${manyClients}, each a transaction.`,
    ],
  };
}

/** What the other figures are slower by on a machine that is throttled, or that others compute on. */
function additionsMs(): number {
  const begun = performance.now();
  let sum = 0;
  for (let n = 0; n < 100_000_000; n++) sum += n;
  if (sum === 0) throw new Error('The loop was left out.');
  return performance.now() - begun;
}

/** Writes and flushes the same 8 KiB again and again, as PostgreSQL's log does. Median, as a rate. */
function flushesPerSecond(folder: string): number {
  const path = join(folder, 'flush');
  const file = openSync(path, 'w');
  const block = Buffer.alloc(8_192, 1);
  const times: number[] = [];
  for (let n = 0; n < flushes; n++) {
    writeSync(file, block, 0, block.length, 0);
    const begun = performance.now();
    fdatasyncSync(file);
    times.push(performance.now() - begun);
  }
  closeSync(file);
  rmSync(path);
  return 1_000 / median(times);
}

/** @returns single-row inserts a second into `bench_rows`, each one a transaction, by so many connections. */
export async function commitsPerSecond(url: string, connections: number, forMs = commitMs): Promise<number> {
  const clients = Array.from({ length: connections }, () => new pg.Client(url));
  await Promise.all(clients.map((client) => client.connect()));
  let count = 0;
  const begun = performance.now();
  await Promise.all(
    clients.map(async (client) => {
      while (performance.now() - begun < forMs) {
        await client.query({ name: 'row', text: 'insert into bench_rows (text) values ($1)', values: ['text'] });
        count++;
      }
    }),
  );
  const rate = (count * 1_000) / (performance.now() - begun);
  await Promise.all(clients.map((client) => client.end()));
  return rate;
}
