import type pg from 'pg';

export interface ExecutionRow {
  id: string;
  workflow: string;
  status: string;
  result: string | null;
  error: string | null;
  parent: string | null;
  holder: string | null;
  finishedAt: Date | null;
}

export interface JournalRow {
  execution: string;
  path: string;
  kind: string;
  args: string;
  status: string;
  runs: number;
  recordedRun: number;
  finishedAt: Date | null;
}

export interface LogRow {
  execution: string;
  path: string;
  run: number;
  message: string;
}

/** A claim of an execution by a server. */
export interface ClaimRow {
  execution: string;
  /** The server's name. */
  server: string;
  at: Date;
}

/** Notes every claim in a table of the test's own. */
export async function watchClaims(database: pg.Client): Promise<void> {
  await database.query(`
    create table public.claims (execution uuid not null, server text not null, at timestamptz not null);
    create function public.note_claim() returns trigger language plpgsql as $$
    begin
      insert into public.claims values (new.id, current_setting('application_name'), clock_timestamp());
      return null;
    end $$;
    create trigger note_claim after update of holder on jobcell.executions for each row
      when (new.holder is not null and new.holder is distinct from old.holder)
      execute function public.note_claim()`);
}

/** The executions that are not in a final status. */
export async function unfinished(
  database: pg.Client,
): Promise<{ id: string; status: string; holder: string | null }[]> {
  const { rows } = await database.query<{ id: string; status: string; holder: string | null }>(
    `select id, status, holder from jobcell.executions where status not in ('SUCCESS', 'FAILED', 'CANCELED') order by id`,
  );
  return rows;
}

export async function readDatabase(database: pg.Client) {
  const executions = await database.query<ExecutionRow>(
    `select id, workflow, status, result, error, parent_execution_id as parent, holder, finished_at as "finishedAt"
     from jobcell.executions`,
  );
  const journal = await database.query<JournalRow>(
    `select execution_id as execution, path, kind, args, status, runs, recorded_run as "recordedRun",
            finished_at as "finishedAt"
     from jobcell.journal`,
  );
  const logs = await database.query<LogRow>('select execution_id as execution, path, run, message from jobcell.logs');
  const claims = await database.query<ClaimRow>('select execution, server, at from public.claims order by at');
  return { executions: executions.rows, journal: journal.rows, logs: logs.rows, claims: claims.rows };
}
