import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { TestProject } from 'vitest/node';
import { startEmbeddedPostgres } from '../src/store/embedded.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Connection string of the run's PostgreSQL server, in which every test file makes databases of its own. */
    postgresUrl: string;
    /** A folder of this run, removed after it. */
    runFolder: string;
  }
}

/** One PostgreSQL server for the whole run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const runFolder = mkdtempSync(join(tmpdir(), 'jobcell-test-'));
  const removeFolder = () => rmSync(runFolder, { recursive: true, force: true, maxRetries: 10 });
  // For a run that is ended by a signal: then nothing below is called.
  process.once('exit', removeFolder);
  const logger = pino({ level: 'warn' }, pino.destination(2));
  const postgres = await startEmbeddedPostgres(join(runFolder, 'database'), logger, { durable: false });
  project.provide('postgresUrl', postgres.url);
  project.provide('runFolder', runFolder);
  return async () => {
    await postgres.stop();
    removeFolder();
  };
}
