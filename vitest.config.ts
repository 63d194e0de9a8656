import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Whole servers that crash, for minutes, whose leases run out while a busy machine still starts them: by hand, on a
    // quiet machine, with JOBCELL_FAULTS=1 npm test -- test/faults
    exclude: process.env.JOBCELL_FAULTS === '1' ? [] : ['test/faults/**'],
    pool: 'forks',
    maxWorkers: 2,
    globalSetup: ['test/global-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
