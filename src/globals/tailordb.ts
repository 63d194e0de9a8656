import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { ownNamePattern } from '../own-names.ts';
import type { SecretKeys } from '../secret-key.ts';
import { isConnectionError } from '../store/connection-errors.ts';
import { openPool, type Pool } from '../store/database.ts';
import { connectNamespace, type NamespaceConnection } from '../store/tailordb/connection.ts';
import type { Namespace } from '../store/tailordb/names.ts';
import {
  forgetDatabase,
  forgetNamespace,
  getNamespace,
  orphanedDatabases,
  putNamespace,
} from '../store/tailordb/namespaces.ts';
import {
  defaultPrivileges,
  dropDatabase,
  dropNamespace,
  provisionNamespace,
  resetPassword,
} from '../store/tailordb/provision.ts';
import { hasRightSettings, resetRoleSettings } from '../store/tailordb/role-settings.ts';
import { endBackend, endOverdueSessions, endSessions, notificationQueueUsage } from '../store/tailordb/sessions.ts';
import { type ConnectionSlots, connectionSlots } from './connection-slots.ts';
import { sqlFailure, sqlState } from './sql-failure.ts';
import type { LentConnection } from './tailordb-client.ts';

export interface TailordbOptions {
  pool: Pool;
  databaseUrl: string;
  keys: SecretKeys;
  /** Connections of all scripts of this server at once; half of them for one workspace. */
  connections: number;
  logger: Logger;
  /** How full the server's queue of notifications may become, from 0 to 1, and how often that is looked at, ms. */
  queue?: { most: number; lookMs: number };
}

/** Scripts' own tables: namespaces, and the connections to them. */
export interface Tailordb {
  /**
   * Creates a namespace, or mends one that there is.
   * @throws JobcellError CONFLICT, NO_SECRET_KEY, DATABASE_PERMISSION
   */
  put(workspaceId: string, name: string): Promise<Namespace>;
  /** Drops a namespace with everything in it; false when there is none. */
  remove(workspaceId: string, name: string): Promise<boolean>;
  /**
   * Runs SQL as the owner of a namespace's tables, in one transaction; null when there is no such namespace.
   * @throws JobcellError SQL_ERROR with what PostgreSQL says, NO_SECRET_KEY, UNAVAILABLE
   */
  migrate(workspaceId: string, name: string, sql: string): Promise<{ command: string; rowCount: number }[] | null>;
  /**
   * A connection for a script, as soon as one is free.
   * @throws JobcellError NAMESPACE_NOT_FOUND, OVERLOADED, UNAVAILABLE, NO_SECRET_KEY
   */
  connect(workspaceId: string, name: string, signal: AbortSignal): Promise<LentConnection>;
  /** Drops the databases of workspaces that are gone, and ends sessions of lost servers, now instead of within a minute. */
  tidyUp(): void;
  stop(): Promise<void>;
}

const sweepMs = 60_000;
/** Their own server ends sessions well before; these are those of a server that was lost. */
const overdueGraceMs = 20_000;
const overdue = {
  statementMs: limits.tailordbStatementMs + overdueGraceMs,
  ownerStatementMs: limits.tailordbMigrationMs + overdueGraceMs,
  idleMs: limits.tailordbIdleMs + overdueGraceMs,
};
/** A session that listens in an open transaction keeps every later notification of the server in the queue, 8 GB of them. */
const usualQueue = { most: 0.25, lookMs: 5_000 };
/**
 * Who changes a role gets in the way of another server that does, or of the role itself: PostgreSQL refuses the later one
 * (XX000, "tuple concurrently updated", or 23505).
 */
const roleTries = 5;
const collisions = new Set(['XX000', '23505']);
/** Connections that change roles and databases, so that what scripts lock holds up nothing else; and how long they wait, ms. */
const administrators = 2;
const lockMs = 2_000;
const lockNotAvailable = '55P03';
const retryMs = 250;
/** The password and the settings of a role may each need to be mended. */
const loginTries = 4;

export function createTailordb(options: TailordbOptions): Tailordb {
  const { pool, databaseUrl, keys, connections, logger, queue = usualQueue } = options;
  const perWorkspace = Math.max(1, connections >> 1);
  const onError = (error: Error) => logger.debug({ err: error }, 'lost a connection to the database');
  const administration = openPool(databaseUrl, { max: administrators, lockMs, onError });
  const provisioning = { pool: administration, databaseUrl, connections, lockMs };
  const slots = connectionSlots(connections);
  const workspaceSlots = new Map<string, { slots: ConnectionSlots; users: number }>();

  const passwordOf = (role: string) => keys.primary().derive(`tailordb ${role}`, 24).toString('base64url');

  const stopped = new AbortController();

  /** Connections that scripts have. */
  const lent = new Set<NamespaceConnection>();
  const watcher = setInterval(watchQueue, queue.lookMs);
  watcher.unref();

  /** The engine's own notifications go through that queue (D21): before it is full, the sessions that fill it are ended. */
  function watchQueue(): void {
    if (lent.size === 0) return;
    notificationQueueUsage(pool).then(
      (usage) => {
        if (usage < queue.most) return;
        logger.warn(
          { usage, connections: lent.size },
          'ended the TailorDB sessions of scripts: they fill the notification queue',
        );
        for (const connection of lent) connection.close('the notification queue of the database is filling up');
      },
      (error: unknown) => logger.debug({ err: error }, 'could not look at the notification queue'),
    );
  }

  let sweeping: Promise<void> = Promise.resolve();
  const sweeper = setInterval(tidyUp, sweepMs);
  sweeper.unref();
  tidyUp();

  function tidyUp(): void {
    sweeping = sweeping.then(sweep).catch((error: unknown) => {
      logger.warn({ err: error }, 'could not tidy up after scripts in PostgreSQL; it is tried again');
    });
  }

  async function sweep(): Promise<void> {
    const ended = await endOverdueSessions(pool, overdue);
    if (ended > 0) logger.warn({ ended }, 'ended TailorDB sessions that nobody waits for any more');
    for (const orphan of await orphanedDatabases(pool)) {
      await dropDatabase(administration, orphan);
      await forgetDatabase(pool, orphan.workspaceId);
      logger.info({ database: orphan.database }, 'dropped the database of a workspace that is gone');
    }
  }

  /** No namespace has another name, and PostgreSQL cannot even be asked for some. */
  const find = (workspaceId: string, name: string) =>
    ownNamePattern.test(name) ? getNamespace(pool, workspaceId, name) : Promise.resolve(null);

  async function provision(namespace: Namespace): Promise<void> {
    const { ownerRole, scriptRole } = namespace;
    const passwords = { owner: passwordOf(ownerRole), script: passwordOf(scriptRole) };
    await once(namespace.id, [ownerRole, scriptRole], () => provisionNamespace(provisioning, namespace, passwords));
  }

  /** Ends sessions that change the roles as well and do not commit, and tries again what others came in between of. */
  async function changeRoles<T>(roles: string[], change: () => Promise<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await administratively(change);
      } catch (error) {
        const state = sqlState(error) ?? '';
        if (tried === roleTries || !(collisions.has(state) || state === lockNotAvailable)) throw error;
        if (state === lockNotAvailable) await endSessions(administration, roles);
        await pause(retryMs * tried);
      }
    }
  }

  const administrating = connectionSlots(administrators);
  async function administratively<T>(work: () => Promise<T>): Promise<T> {
    const giveBack = await administrating.take(stopped.signal);
    try {
      return await work();
    } finally {
      giveBack();
    }
  }

  /** By what is put right: one time is enough for all who wait for it. */
  const changing = new Map<string, Promise<unknown>>();
  async function once(what: string, roles: string[], change: () => Promise<unknown>): Promise<void> {
    const running = changing.get(what) ?? changeRoles(roles, change).finally(() => changing.delete(what));
    changing.set(what, running);
    await running;
  }

  /** Connects, once nothing is left of what an earlier session may have done to its role. */
  async function logIn(namespace: Namespace, role: string, statementMs: number): Promise<NamespaceConnection> {
    const { database, schema } = namespace;
    const login = { databaseUrl, database, schema, role, password: passwordOf(role), statementMs };
    for (let tried = 1; ; tried++) {
      try {
        const connection = await connectNamespace(login);
        // After it has begun, so that nothing comes in between; what it began with counts until its end.
        const right = await hasRightSettings(pool, role).catch((error: unknown) => {
          connection.close('its role could not be looked at');
          throw error;
        });
        if (right || tried === loginTries) return connection;
        connection.close('its role is put right');
        await once(role, [role], () => resetRoleSettings(administration, role));
      } catch (error) {
        if (tried === loginTries || !(await mendLogin(role, error))) throw error;
      }
    }
  }

  /** @returns whether another try may succeed: something was mended that can have made the login fail. */
  async function mendLogin(role: string, error: unknown): Promise<boolean> {
    const state = sqlState(error);
    if (state === undefined) return false;
    // Its password was changed, or the server's key is a new one.
    if (state === '28P01') {
      await once(role, [role], () => resetPassword(administration, role, passwordOf(role)));
      return true;
    }
    // A setting can make every later login fail, such as a library that is not there.
    // They may have been put right for another login meanwhile; what is no matter of the role fails the next time as well.
    if (await hasRightSettings(pool, role)) return !isConnectionError(error);
    await once(role, [role], () => resetRoleSettings(administration, role));
    return true;
  }

  /** Takes a slot of the workspace and one of the server; who comes later waits in line. */
  async function takeSlots(workspaceId: string, signal: AbortSignal): Promise<() => void> {
    const own = workspaceSlots.get(workspaceId) ?? { slots: connectionSlots(perWorkspace), users: 0 };
    workspaceSlots.set(workspaceId, own);
    own.users++;
    const leave = () => {
      if (--own.users === 0) workspaceSlots.delete(workspaceId);
    };
    try {
      const giveBackOwn = await own.slots.take(signal);
      try {
        const giveBack = await slots.take(signal);
        return () => {
          giveBack();
          giveBackOwn();
          leave();
        };
      } catch (error) {
        giveBackOwn();
        throw error;
      }
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** PostgreSQL itself may have no connection left, or be away for a moment. */
  async function logInUntil(
    namespace: Namespace,
    late: AbortSignal,
    signal: AbortSignal,
  ): Promise<NamespaceConnection> {
    for (;;) {
      try {
        return await logIn(namespace, namespace.scriptRole, limits.tailordbStatementMs);
      } catch (error) {
        signal.throwIfAborted();
        if (!isConnectionError(error)) throw notReachable(error, namespace);
        if (late.aborted) throw busy('PostgreSQL accepted none');
        await pause(retryMs);
      }
    }
  }

  function notReachable(error: unknown, namespace: Namespace): unknown {
    if (error instanceof JobcellError) return error;
    logger.error(
      { err: error, namespace: namespace.name, database: namespace.database },
      'a namespace cannot be reached',
    );
    return new JobcellError(
      'UNAVAILABLE',
      `The TailorDB namespace ${JSON.stringify(namespace.name)} cannot be reached; the server's log has the cause. ` +
        'Whoever runs the server may have to create it again.',
    );
  }

  const busy = (why: string) =>
    new JobcellError(
      'OVERLOADED',
      `No connection to TailorDB became free within ${limits.tailordbWaitMs / 1_000} s: ${why}. End clients that are not used.`,
    );

  return {
    async put(workspaceId, name) {
      keys.primary();
      const namespace = await putNamespace(pool, workspaceId, name);
      await provision(namespace);
      return namespace;
    },

    async remove(workspaceId, name) {
      const namespace = await find(workspaceId, name);
      if (namespace === null) return false;
      const { ownerRole, scriptRole } = namespace;
      await changeRoles([ownerRole, scriptRole], () => dropNamespace(provisioning, namespace));
      await forgetNamespace(pool, workspaceId, name);
      return true;
    },

    async migrate(workspaceId, name, sql) {
      const namespace = await find(workspaceId, name);
      if (namespace === null) return null;
      const { ownerRole } = namespace;
      const connection = await logIn(namespace, ownerRole, limits.tailordbMigrationMs).catch((error: unknown) => {
        throw isConnectionError(error) ? error : notReachable(error, namespace);
      });
      try {
        // A session of the script role may hold on to them.
        const defaults = `set lock_timeout = ${lockMs}; ${defaultPrivileges(namespace)}; set lock_timeout = 0`;
        await changeRoles([namespace.scriptRole], () => connection.run(defaults));
        const ends = await connection.run(sql);
        if (!connection.inTransaction) return ends;
        throw new JobcellError('SQL_ERROR', 'The SQL left a transaction open, which was rolled back. Commit it.');
      } catch (error) {
        const failure = sqlFailure(error);
        if (failure === undefined) throw error;
        const { message, code, position, detail, hint } = failure;
        throw new JobcellError('SQL_ERROR', `PostgreSQL refused the SQL, and nothing of it was done: ${message}.`, {
          extra: {
            sqlState: code,
            position: position === undefined ? null : Number(position),
            hint,
            sqlDetail: detail,
          },
        });
      } finally {
        connection.close('done');
      }
    },

    async connect(workspaceId, name, signal) {
      const namespace = await find(workspaceId, name);
      if (namespace === null) {
        throw new JobcellError(
          'NAMESPACE_NOT_FOUND',
          `There is no TailorDB namespace ${JSON.stringify(name)} in this workspace. Create it, or correct the name.`,
        );
      }
      const late = AbortSignal.timeout(limits.tailordbWaitMs);
      const release = await takeSlots(workspaceId, AbortSignal.any([signal, late])).catch((error: unknown) => {
        throw late.aborted && !signal.aborted ? busy('all are in use') : error;
      });
      try {
        const connection = await logInUntil(namespace, late, signal);
        lent.add(connection);
        return {
          connection,
          giveBack(wasBusy) {
            lent.delete(connection);
            release();
            if (!wasBusy) return;
            endBackend(pool, connection.pid, namespace.scriptRole).catch((error: unknown) => {
              logger.warn({ err: error, pid: connection.pid }, 'could not end a statement of a script');
            });
          },
        };
      } catch (error) {
        release();
        throw error;
      }
    },

    tidyUp,

    async stop() {
      clearInterval(sweeper);
      clearInterval(watcher);
      stopped.abort();
      await sweeping;
      await administration.end();
    },
  };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
