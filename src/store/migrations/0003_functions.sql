-- Invocations of functions, and test runs of scripts that are not stored. No journal stands behind them: a row is
-- written after the run, or, for a run that takes longer than a second, first as RUNNING and again at its end.

create table function_executions (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  id uuid not null,
  -- null: a test run
  name text,
  version int,
  type text not null check (type in ('JOB', 'STANDARD')),
  status text not null check (status in ('RUNNING', 'SUCCESS', 'FAILED', 'CANCELED')),
  -- values are kept up to the size that answers embed; the text of a larger one is null, its size stays
  args text,
  args_size int not null,
  result text,
  result_size int,
  error text,
  -- waiting for a sandbox process, and the run, apart
  queue_ms double precision not null,
  run_ms double precision,
  cpu_ms double precision,
  wall_ms double precision,
  peak_memory_bytes bigint,
  memory_limit_bytes bigint not null,
  -- the lease of the server that runs it (D1): without that lease a RUNNING row is nobody's any more
  holder uuid not null,
  created_at timestamptz not null,
  started_at timestamptz not null,
  finished_at timestamptz,
  primary key (workspace_id, id)
);
create index function_executions_by_name on function_executions (workspace_id, name, id desc);
create index function_executions_by_status on function_executions (workspace_id, status, id desc);
create index function_executions_running on function_executions (holder) where status = 'RUNNING';

create table function_logs (
  workspace_id uuid not null,
  execution_id uuid not null,
  id int not null,
  at timestamptz not null,
  level text not null,
  message text not null,
  attributes text,
  primary key (workspace_id, execution_id, id),
  foreign key (workspace_id, execution_id) references function_executions (workspace_id, id) on delete cascade
);

-- A job execution is found by its id alone as a function execution of type JOB. Ids are UUIDv7, so the index only grows
-- at its right edge.
create index journal_by_id on journal (workspace_id, id);
