-- The tables of the first release.
--
--   workspaces        a tenant; `revision` rises with each upload and delete of a script (D28)
--   tokens            workspace tokens, hashed
--   script_versions   the content of a script, once per name and content hash
--   script_revisions  which version a name stood for, from a revision on; no version: deleted
--   workflows         name, main job function, policies
--   executions        one run of a workflow: status, claim (holder and fence), pinned revision
--   journal           one row per recorded call of an execution, the main body included
--   logs              log lines of scripts
--   servers           one lease per server process (D1)
--
-- JSON that scripts made is stored as text, exactly as it came (D33). Every table leads with workspace_id, so that a
-- distributed PostgreSQL can shard by it; `servers` is the one that belongs to no workspace.

-- The one clock (P1). Tests move time by replacing this function.
create function jobcell_now() returns timestamptz language sql stable parallel safe as 'select now()';

create table workspaces (
  id uuid primary key,
  name text not null unique,
  revision bigint not null default 0,
  created_at timestamptz not null default jobcell_now(),
  updated_at timestamptz not null default jobcell_now()
);

create table tokens (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  id uuid not null,
  name text not null,
  token_hash bytea not null unique,
  created_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, id)
);

create table script_versions (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  type text not null check (type in ('JOB', 'STANDARD')),
  name text not null,
  version int not null,
  content_hash text not null,
  format text not null check (format in ('module', 'script')),
  -- bytea, since a script may hold U+0000
  script bytea not null,
  source_map bytea,
  created_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, type, name, version),
  unique (workspace_id, type, name, content_hash)
);

create table script_revisions (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  type text not null check (type in ('JOB', 'STANDARD')),
  name text not null,
  revision bigint not null,
  version int,
  created_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, type, name, revision)
);

create table workflows (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  name text not null,
  main_job_function text not null,
  -- JSON object: job function name -> version that executions of this workflow use instead of the newest
  job_functions text not null default '{}',
  max_concurrent_executions int,
  -- JSON object as it was declared
  retry_policy text,
  created_at timestamptz not null default jobcell_now(),
  updated_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, name)
);

create table executions (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  id uuid not null,
  workflow text not null,
  main_job_function text not null,
  job_functions text not null default '{}',
  status text not null check (status in
    ('PENDING', 'RUNNING', 'PENDING_RESUME', 'PENDING_RETRY', 'WAITING', 'SUCCESS', 'FAILED', 'CANCELED')),
  args text not null,
  result text,
  error text,
  -- JSON of `tailor.context.getInvoker()`
  invoker text,
  attempt int not null default 1,
  depth int not null default 0,
  parent_execution_id uuid,
  parent_path text,
  -- names resolve to the versions of this revision (D28)
  revision bigint not null,
  replay text not null default 'auto' check (replay in ('auto', 'always')),
  -- 32 secret random bytes; chance inside the bodies comes from them (D13)
  seed bytea not null,
  retry_policy text,
  retry_count int not null default 0,
  retry_after timestamptz,
  idempotency_key text,
  -- the server that runs it, and the number of that claim: the fence of every write (D1, D2)
  holder uuid,
  fence bigint not null default 0,
  -- D24: takeovers since the last new record, and how many finished records there were at the last one
  takeovers int not null default 0,
  takeover_records int not null default 0,
  created_at timestamptz not null default jobcell_now(),
  started_at timestamptz,
  finished_at timestamptz,
  primary key (workspace_id, id)
);
create index executions_by_workflow on executions (workspace_id, workflow, id desc);
create index executions_by_status on executions (workspace_id, status, id desc);
create index executions_claimable on executions (id) where status in ('PENDING', 'PENDING_RESUME');
create index executions_held on executions (holder) where holder is not null;
create unique index executions_idempotent on executions (workspace_id, workflow, idempotency_key)
  where idempotency_key is not null;

create table journal (
  workspace_id uuid not null,
  execution_id uuid not null,
  -- `main-job`, `main-job/0:fetchData`: position and name of each recorded call on the way
  path text not null,
  -- the path of the body that made the call ('' for main), and its position there (D5)
  parent_path text not null,
  position int not null,
  id uuid not null,
  kind text not null check (kind in ('job', 'startWorkflow', 'wait', 'resolve', 'resumeWorkflowExecution')),
  name text not null,
  args text not null,
  status text not null check (status in ('RUNNING', 'SUSPEND', 'SUCCESS', 'FAILED', 'WAITING', 'CANCELED')),
  result text,
  error text,
  execution_policy_key text,
  function_version int,
  -- the run of the calling body that made this call, and its readings of the clock since its last call, as a JSON array
  -- of milliseconds: what a replay needs to see the same chance and time (D12, D13)
  recorded_run int not null default 1,
  clock text,
  -- of a body that failed: the position of the call its error came from (D9)
  failing_position int,
  -- how often its body was really started (E2)
  runs int not null default 0,
  cpu_ms double precision,
  wall_ms double precision,
  peak_memory_bytes bigint,
  memory_limit_bytes bigint,
  started_at timestamptz not null,
  finished_at timestamptz,
  primary key (workspace_id, execution_id, path),
  foreign key (workspace_id, execution_id) references executions (workspace_id, id) on delete cascade
);

create table logs (
  workspace_id uuid not null,
  execution_id uuid not null,
  -- counts up in the order of writing, given by the claim's holder, so that a repeated write is no second line (D3)
  id bigint not null,
  path text not null,
  run int not null,
  at timestamptz not null,
  level text not null,
  message text not null,
  attributes text,
  primary key (workspace_id, execution_id, id),
  foreign key (workspace_id, execution_id) references executions (workspace_id, id) on delete cascade
);

create table servers (
  id uuid primary key,
  started_at timestamptz not null default jobcell_now(),
  expires_at timestamptz not null
);
