import { randomBytes } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { startCluster, stopCluster } from '../faults/cluster.ts';
import { createDatabase } from '../support/database.ts';
import { startWebServer } from '../support/web-server.ts';
import { checkCaps, type Note } from './caps-check.ts';
import { type CapsCluster, runWorkload } from './caps-run.ts';
import { type BodyPlan, type Workload, workloads } from './caps-workload.ts';

/** The long form: `JOBCELL_CAPS_RUNS=100 npm test -- test/policies/caps`; JOBCELL_CAPS_SEED repeats one. */
const runs = Number(process.env.JOBCELL_CAPS_RUNS ?? 2);
const seed = Number(process.env.JOBCELL_CAPS_SEED ?? Math.floor(Math.random() * 2 ** 31));
const runLimitMs = 240_000;

const leaf: BodyPlan = { key: 'single', before: 0, after: 0, calls: [] };

describe('the check finds what breaks a cap', () => {
  const workload: Workload = {
    policies: { 'broad-policy': 1, 'narrow-policy': null, 'single-policy': 1 },
    workflows: [null, null],
    executions: [0, 1].map(() => ({ workflow: 0, startAfter: 0, main: { ...leaf, key: null, calls: [leaf, leaf] } })),
    changes: [],
    ends: [],
  };
  const caps = (['broad-policy', 'narrow-policy', 'single-policy', 'workflow-0'] as const).map((pool) => ({
    pool,
    cap: pool === 'single-policy' ? 1 : null,
    sent: 0,
    answered: 1,
  }));
  let at = 10;
  const note = (kind: Note['kind'], execution: number, path: string, run = 1): Note => ({
    at: at++,
    kind,
    execution,
    path,
    id: `${execution} ${path} ${run}`,
  });
  const check = (notes: Note[]) => checkCaps(workload, notes, [2, 2], caps);
  const mains = () => [note('begin', 0, 'm'), note('begin', 1, 'm')];

  test('two bodies of one key side by side', () => {
    const notes = [
      ...mains(),
      note('begin', 0, 'm.0'),
      note('begin', 1, 'm.0'),
      note('end', 0, 'm.0'),
      note('end', 1, 'm.0'),
    ];
    expect(check(notes)).toEqual(['2 of key single at once instead of 1']);
  });

  test('but not one after the other, nor one whose run was dropped in its call', () => {
    const first = [...mains(), note('begin', 0, 'm.0'), note('end', 0, 'm.0')];
    expect(check([...first, note('begin', 1, 'm.0'), note('end', 1, 'm.0'), note('end', 0, 'm')])).toEqual([]);
    const dropped = [...mains(), note('begin', 0, 'm.0'), note('begin', 1, 'm.0'), note('end', 1, 'm.0')];
    expect(check([...dropped, note('begin', 0, 'm', 2), note('begin', 0, 'm.0', 2), note('end', 0, 'm.0', 2)])).toEqual(
      [],
    );
  });

  test('a cap that was lowered counts for what starts afterwards', () => {
    const before = [{ ...caps[2]!, cap: 2 }, ...caps.filter(({ pool }) => pool !== 'single-policy')];
    const both = [
      ...mains(),
      note('begin', 0, 'm.0'),
      note('begin', 1, 'm.0'),
      note('end', 0, 'm.0'),
      note('end', 1, 'm.0'),
    ];
    const started = [2, 2];
    expect(checkCaps(workload, both, started, before)).toEqual([]);
    const lowered = { ...caps[2]!, cap: 1, sent: both[2]!.at - 0.5, answered: both[2]!.at + 0.5 };
    // It had its slot already, for all that is known.
    expect(checkCaps(workload, both, started, [...before, lowered])).toEqual([]);
    const early = { ...lowered, sent: 3, answered: 4 };
    expect(checkCaps(workload, both, started, [...before, early])).toEqual(['2 of key single at once instead of 1']);
  });
});

describe('E4, over three servers', () => {
  let cluster: CapsCluster;

  beforeAll(async () => {
    const notes: Note[] = [];
    let named = 0;
    const { url } = await startWebServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url!, 'http://counter');
      const id = searchParams.get('id') || String(++named);
      notes.push({
        at: performance.now(),
        kind: pathname.slice(1) as Note['kind'],
        execution: Number(searchParams.get('execution')),
        path: searchParams.get('path')!,
        id,
      });
      response.end(id);
    });
    const adminToken = randomBytes(24).toString('hex');
    const databaseUrl = await createDatabase();
    const folder = mkdtempSync(join(inject('runFolder'), 'caps-'));
    const members = await startCluster(3, { databaseUrl, folder, adminToken, leaseS: 5, cells: 8 });
    const database = new pg.Client(databaseUrl);
    await database.connect();
    const take = () => notes.splice(0);
    cluster = { members, adminToken, databaseUrl, database, counter: { url, take } };
  }, 120_000);
  afterAll(async () => {
    await stopCluster(cluster.members);
    await cluster.database.end();
  });

  test(
    'no cap is ever exceeded, whatever runs, is changed and is killed, and everything ends',
    async () => {
      const property = fc.asyncProperty(workloads(18), async (workload) => {
        expect(await runWorkload(cluster, workload)).toEqual([]);
      });
      await fc.assert(property, { numRuns: runs, seed, endOnFailure: true });
    },
    runs * runLimitMs,
  );
});
