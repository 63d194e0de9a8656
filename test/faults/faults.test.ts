import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { runSeed, summary } from './seed.ts';

/** The short form of `npm run faults`, which docs/durability.md describes. */
const size = { executions: 30, steps: 6, workspaces: 3, pauseMs: 200 };

test.each([1, 2])(
  'D1-D6, D14, D23, D30, E1, E2, E6: three servers under the faults of seed %i keep every promise',
  async (seed) => {
    const report = await runSeed({
      seed,
      size,
      servers: 3,
      leaseS: 5,
      cells: 8,
      limitMs: 240_000,
      databaseUrl: await createDatabase(),
      folder: mkdtempSync(join(inject('runFolder'), 'faults-')),
    });
    console.log(summary(report));
    if (report.violations.length > 0) {
      for (const [server, log] of Object.entries(report.logs)) console.log(`server ${server} wrote:\n${log}`);
    }
    expect(report.violations).toEqual([]);
  },
  300_000,
);
