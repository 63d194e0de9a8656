import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Client } from '../support/client.ts';
import { poolMismatches } from '../support/pools.ts';
import { check, type Findings } from './check.ts';
import { startCluster, stopCluster } from './cluster.ts';
import { startCounter } from './counter.ts';
import { readDatabase, unfinished, watchClaims } from './evidence.ts';
import { type FaultKind, injectFaults } from './faults.ts';
import { seeded } from './random.ts';
import { type Size, startWorkload } from './workload.ts';

export interface SeedOptions {
  seed: number;
  size: Size;
  servers: number;
  leaseS: number;
  /** Cells of each server. */
  cells: number;
  /** All executions have to end within this, ms. */
  limitMs: number;
  /** An empty database. */
  databaseUrl: string;
  /** For data folders. */
  folder: string;
}

export interface SeedReport extends Findings {
  seed: number;
  faults: Partial<Record<FaultKind, number>>;
  ms: number;
  /** What each server logged. */
  logs: Record<string, string>;
}

/** One workload under the faults of one seed: real servers, from an empty database to the judgement. */
export async function runSeed(options: SeedOptions): Promise<SeedReport> {
  const { seed, size, leaseS } = options;
  const begun = performance.now();
  const adminToken = randomBytes(24).toString('hex');
  const members = await startCluster(options.servers, { ...options, adminToken });
  const counter = await startCounter();
  const database = new pg.Client(options.databaseUrl);
  try {
    await database.connect();
    await watchClaims(database);
    const client = new Client({ url: members[0]!.process.url, adminToken });
    const ids = await startWorkload(client, counter.url, size);

    const done = new AbortController();
    const random = seeded(seed);
    const injecting = injectFaults({ members, random, leaseMs: leaseS * 1_000, signal: done.signal });
    const left = await untilFinished(database, options.limitMs);
    done.abort();
    const injected = await injecting;

    const found = check({
      ids,
      size,
      leaseMs: leaseS * 1_000,
      notes: counter.notes,
      faults: injected.faults,
      ...(await readDatabase(database)),
    });
    const late = left.map(({ id, status, holder }) => `execution ${id} is still ${status}, held by ${holder}`);
    const counters = (await poolMismatches(options.databaseUrl)).map(
      ({ pool, used, held }) => `pool ${pool}: its counter is ${used}, and ${held} slots are held`,
    );
    const byKind = Map.groupBy(injected.faults, (fault) => fault.kind);
    return {
      ...found,
      seed,
      violations: [...injected.violations, ...late, ...counters, ...found.violations],
      faults: Object.fromEntries([...byKind].map(([kind, of]) => [kind, of.length])),
      ms: performance.now() - begun,
      logs: Object.fromEntries(members.map((member) => [member.name, member.logs()])),
    };
  } finally {
    await stopCluster(members);
    await database.end();
    counter.close();
  }
}

/** @returns the executions that were not final when the time was over. */
async function untilFinished(database: pg.Client, limitMs: number) {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const left = await unfinished(database);
    if (left.length === 0 || performance.now() > deadline) return left;
    await sleep(200);
  }
}

/** One line for people. */
export function summary({
  seed,
  ms,
  faults,
  bodiesAgain,
  claimsAgain,
  longestSilenceMs,
  violations,
}: SeedReport): string {
  const kinds = Object.entries(faults).map(([kind, count]) => `${count} ${kind}`);
  const verdict = violations.length === 0 ? 'ok' : `${violations.length} VIOLATIONS`;
  return (
    `seed ${seed}: ${verdict} in ${(ms / 1_000).toFixed(0)} s; faults: ${kinds.join(', ')}; ` +
    `${claimsAgain} claims and ${bodiesAgain} bodies again, longest silence ${(longestSilenceMs / 1_000).toFixed(1)} s`
  );
}
