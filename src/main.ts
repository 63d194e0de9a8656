import { adminToken } from './admin-token.ts';
import { createApi } from './api/server.ts';
import type { Config } from './config.ts';
import { startEngine } from './engine/engine.ts';
import { createFunctionService } from './functions/functions.ts';
import { addressRules } from './globals/addresses.ts';
import { createFetchBroker } from './globals/fetch-broker.ts';
import { fetchOperations } from './globals/fetch-operations.ts';
import { createHostOperations } from './globals/host-operations.ts';
import { secretOperations } from './globals/secret-operations.ts';
import { createSecrets } from './globals/secrets.ts';
import { createTailordb } from './globals/tailordb.ts';
import { tailordbOperations } from './globals/tailordb-operations.ts';
import { createLogger } from './logging.ts';
import { packageRoot } from './paths.ts';
import { createSandbox } from './sandbox/create-sandbox.ts';
import { secretKeys } from './secret-key.ts';
import { openPool, ping } from './store/database.ts';
import { startEmbeddedPostgres } from './store/embedded.ts';
import { migrate } from './store/migrate.ts';

export interface RunningServer {
  /** The address really bound, for example `http://127.0.0.1:4700`. */
  url: string;
  adminToken: string;
  /** Resolves when nothing works any more and nothing but a new start can help. */
  broken: Promise<Error>;
  /** Stops as D30 says: no new work, long polls answered, claims given back. */
  close(): Promise<void>;
}

/** Connections of a server's pool: two for the step path (`StepWriter`), the rest for claims, reads and uploads. */
const poolConnections = 16;

/** A statement that is not answered in so long is sent again on another connection, ms. */
const answerMs = 15_000;

/** D30: a stop takes at most this long, ms. */
const stopMs = 10_000;

/**
 * Composes the parts and starts them, the ones that others stand on first. What fails on the way takes down what stood
 * already, so that nothing is left behind by a start that did not succeed.
 */
export async function startServer(config: Config): Promise<RunningServer> {
  const logger = createLogger(config.logLevel);
  const stops: (() => Promise<void>)[] = [];
  const stopAll = async () => {
    let failure: unknown;
    for (let stop = stops.pop(); stop; stop = stops.pop()) {
      await stop().catch((error: unknown) => {
        // The others are stopped all the same.
        logger.error({ err: error }, 'a part of the server did not stop cleanly');
        failure ??= error;
      });
    }
    if (failure !== undefined) throw failure;
  };
  try {
    const fetch = createFetchBroker({ rules: addressRules(config.fetchAllow) });
    const token = adminToken(config);
    const keys = secretKeys(config);
    let databaseUrl = config.databaseUrl;
    let broken: Promise<Error> = new Promise(() => {});
    if (databaseUrl === undefined) {
      const database = await startEmbeddedPostgres(config.dataDir, logger);
      stops.push(() => database.stop());
      databaseUrl = database.url;
      broken = database.lost;
    }
    const onError = (error: Error) => logger.warn({ err: error }, 'an idle database connection broke; it is replaced');
    // A migration takes as long as it takes.
    const migrating = openPool(databaseUrl, { max: 1, onError });
    await migrate(migrating, logger).finally(() => migrating.end());
    const pool = openPool(databaseUrl, { max: poolConnections, answerMs, onError });
    stops.push(() => pool.end());

    const sandbox = createSandbox({
      cells: config.cells,
      reserved: config.reservedCells,
      prewarmed: config.prewarmedCells,
      memoryMb: config.memoryMb,
      packageRoot,
      logger,
    });
    stops.push(() => sandbox.stop());
    await sandbox.start();

    // These three stop side by side: functions that run have the whole grace (D30), and meanwhile nothing is claimed.
    const serving: (() => Promise<void>)[] = [];
    stops.push(async () => {
      await Promise.all(serving.map((stop) => stop()));
    });
    const secrets = createSecrets({ pool, keys, logger });
    void secrets.rotate();
    const tailordb = createTailordb({ pool, databaseUrl, keys, connections: config.tailordbConnections, logger });
    stops.push(() => tailordb.stop());
    const hostOperations = createHostOperations(
      [
        () => fetchOperations(fetch),
        (workspaceId) => secretOperations(secrets, workspaceId),
        (workspaceId) => tailordbOperations(tailordb, workspaceId),
      ],
      logger,
    );
    const engine = await startEngine({
      pool,
      databaseUrl,
      sandbox,
      hostOperations,
      logger,
      leaseMs: config.leaseMs,
      jobFunctionCpuMs: config.jobFunctionCpuMs,
      replay: config.replay,
    });
    serving.push(async () => {
      await engine.stop();
      // With the lease, the cells' deadline is no longer pushed on (D4). Nothing that is claimed runs in them any more.
      sandbox.extendDeadline(stopMs);
    });

    const functions = createFunctionService({
      pool,
      sandbox,
      hostOperations,
      logger,
      startWorkflow: (request) => engine.start(request),
      serverId: () => engine.serverId,
      functionCpuMs: config.functionCpuMs,
      jobFunctionCpuMs: config.jobFunctionCpuMs,
    });
    serving.push(() => functions.stop());

    const api = createApi({
      pool,
      sandbox,
      engine,
      functions,
      secrets,
      tailordb,
      adminToken: token,
      logger,
      // The sandbox has run a real isolate and the migrations are applied, or the start would have failed.
      ready: async () => {
        try {
          await ping(pool);
          return { ok: true };
        } catch (error) {
          return { ok: false, reason: `the database does not answer: ${String(error)}` };
        }
      },
    });
    serving.push(() => api.close());
    const url = await api.listen({ host: config.host, port: config.port });
    return { url, adminToken: token, broken, close: stopAll };
  } catch (error) {
    // What does not stop cleanly is logged there; the reason of the failed start is what the caller needs.
    await stopAll().catch(() => undefined);
    throw error;
  }
}
