import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Single crashes of whole servers, some minutes of them: JOBCELL_FAULTS=1 npm test -- test/faults. The short form of
    // the fault test runs always.
    exclude: process.env.JOBCELL_FAULTS === '1' ? [] : ['test/faults/crashes.test.ts'],
    pool: 'forks',
    // Much of a test's time is waiting: for processes, leases and clocks.
    maxWorkers: 3,
    globalSetup: ['test/global-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
