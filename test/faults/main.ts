/**
 * `npm run faults -- --seeds 100` runs a workload of durable executions on three servers, breaks the servers at random
 * points, and holds what happened against docs/durability.md. Exit code 1 when a promise was broken.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../src/store/embedded.ts';
import { runSeed, type SeedReport, summary } from './seed.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    executions: { type: 'string', default: '200' },
    steps: { type: 'string', default: '10' },
    workspaces: { type: 'string', default: '10' },
    servers: { type: 'string', default: '3' },
    lease: { type: 'string', default: '5' },
    cells: { type: 'string', default: '16' },
    pause: { type: 'string', default: '200' },
    limit: { type: 'string', default: '600' },
  },
});
const number = (name: keyof typeof values) => {
  const value = Number(values[name]);
  if (Number.isInteger(value) && value >= 1) return value;
  console.error(`--${name} must be a whole number from 1`);
  return process.exit(2);
};

const size = {
  executions: number('executions'),
  steps: number('steps'),
  workspaces: number('workspaces'),
  pauseMs: number('pause'),
};
const common = { size, servers: number('servers'), leaseS: number('lease'), cells: number('cells') };
const limitMs = number('limit') * 1_000;
const first = number('seed');
const count = number('seeds');

const folder = mkdtempSync(join(tmpdir(), 'jobcell-faults-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1));
const logger = pino({ level: 'warn' }, pino.destination(2));
const postgres = await startEmbeddedPostgres(join(folder, 'database'), logger, { durable: false });

async function createDatabase(name: string): Promise<string> {
  const client = new pg.Client(postgres.url);
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  const url = new URL(postgres.url);
  url.pathname = `/${name}`;
  return url.href;
}

/** Violations of a seed that are shown. */
const shown = 20;

function showViolations(report: SeedReport): void {
  for (const violation of report.violations.slice(0, shown)) console.log(`  ${violation}`);
  if (report.violations.length > shown) console.log(`  and ${report.violations.length - shown} more`);
  const kept = mkdtempSync(join(tmpdir(), `jobcell-faults-seed-${report.seed}-`));
  for (const [server, text] of Object.entries(report.logs)) writeFileSync(join(kept, `${server}.log`), text);
  const again = Object.entries(values)
    .filter(([name]) => name !== 'seeds' && name !== 'seed')
    .map(([name, value]) => `--${name} ${value}`);
  console.log(`  the servers' logs are in ${kept}`);
  console.log(`  again: npm run faults -- --seed ${report.seed} ${again.join(' ')}`);
}

console.log(
  `${count} seeds: ${size.executions} executions of ${size.steps} steps in ${size.workspaces} workspaces, ` +
    `${common.servers} servers with leases of ${common.leaseS} s`,
);
const broken: number[] = [];
for (let seed = first; seed < first + count; seed++) {
  const seedFolder = join(folder, `seed-${seed}`);
  mkdirSync(seedFolder);
  const databaseUrl = await createDatabase(`seed_${seed}`);
  const report = await runSeed({ ...common, seed, limitMs, databaseUrl, folder: seedFolder });
  console.log(summary(report));
  if (report.violations.length === 0) continue;
  broken.push(seed);
  showViolations(report);
}
console.log(
  broken.length === 0
    ? `all ${count} seeds ok`
    : `broken promises in ${broken.length} of ${count} seeds: ${broken.join(', ')}`,
);
await postgres.stop();
process.exit(broken.length === 0 ? 0 : 1);
