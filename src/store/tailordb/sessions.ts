import type { Queryable } from '../database.ts';

/** How full the queue of notifications is that all databases of the server share, from 0 to 1. Full, no NOTIFY works. */
export async function notificationQueueUsage(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ usage: number }>('select pg_notification_queue_usage() as usage');
  return rows[0]!.usage;
}

/** Ends a role's backend, if it still is that role's. */
export async function endBackend(db: Queryable, pid: number, role: string): Promise<void> {
  await db.query('select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and usename = $2', [pid, role]);
}

/** Ends every session of these roles. */
export async function endSessions(db: Queryable, roles: string[]): Promise<void> {
  await db.query('select pg_terminate_backend(pid) from pg_stat_activity where usename = any($1)', [roles]);
}

/** After what time nobody can be waiting for a session any more, ms. */
export interface SessionTimes {
  /** A statement of a script. */
  statementMs: number;
  /** A statement of the administrator. */
  ownerStatementMs: number;
  /** Doing nothing, in a transaction or out of one. */
  idleMs: number;
}

/**
 * Ends the sessions of namespaces that have outlived every limit, whichever server opened them: one that was lost ends
 * none, and a script can turn off each of PostgreSQL's own limits. @returns how many.
 */
export async function endOverdueSessions(db: Queryable, times: SessionTimes): Promise<number> {
  const { rowCount } = await db.query(
    `select pg_terminate_backend(a.pid)
     from pg_stat_activity a
     join tailordb_databases d on a.datname = 'jobcell_' || replace(d.id::text, '-', '')
     where starts_with(a.usename, a.datname || '_')
       and case when a.state like 'idle%' then clock_timestamp() - a.state_change > $3::float8 * interval '1 ms'
                else clock_timestamp() - a.query_start
                     > case when a.usename like '%\\_owner' then $2::float8 else $1::float8 end * interval '1 ms' end`,
    [times.statementMs, times.ownerStatementMs, times.idleMs],
  );
  return rowCount ?? 0;
}
