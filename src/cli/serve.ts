import { readConfig } from '../config.ts';
import { startServer } from '../main.ts';
import { explain } from './explain.ts';

/** D30: the server has this long to end cleanly. */
const graceMs = 9_500;

/**
 * Ctrl+C reaches every process of the terminal, and npm and scripts/run.mjs pass it on as well, so one press arrives
 * more than once. Only what comes later than this is a second signal.
 */
const sameSignalMs = 500;

/** Runs the server until a signal ends it: exit code 0 after a clean end, 1 otherwise. */
export async function serve(environment: Record<string, string | undefined>): Promise<void> {
  let stopping = 0;
  let close: (() => Promise<void>) | undefined;

  const stop = (signal: NodeJS.Signals) => {
    const now = performance.now();
    // Before it is ready there is nothing to give back: the embedded database and the cells end with this process.
    if (close === undefined) process.exit(0);
    if (stopping !== 0) {
      if (now - stopping < sameSignalMs) return;
      console.error(`jobcell: ${signal} again, ending at once`);
      process.exit(1);
    }
    stopping = now;
    setTimeout(() => {
      console.error(`jobcell: not ended after ${graceMs / 1_000} s, ending at once`);
      process.exit(1);
    }, graceMs).unref();
    close().then(
      () => process.exit(0),
      (error: unknown) => {
        console.error(`jobcell: the server did not end cleanly: ${explain(error)}`);
        process.exit(1);
      },
    );
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);

  const config = readConfig(environment);
  const server = await startServer(config);
  close = () => server.close();
  server.broken.then((error) => {
    console.error(`jobcell: ${explain(error)}`);
    process.exit(1);
  });
  console.log(`jobcell listening on ${server.url}`);
  if (config.adminToken === undefined) console.log(`the admin token is in ${config.dataDir}/admin-token`);
}
