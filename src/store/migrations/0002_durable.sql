-- Executions that wait for their next attempt, by the time it is due.
create index executions_retry on executions (retry_after) where status = 'PENDING_RETRY';

-- Waits by key: who resolves, asks by execution and key (D11).
create index journal_waits on journal (workspace_id, execution_id, name, id desc) where kind = 'wait';

-- D31: a workspace that is being deleted takes no new work. D32: days its finished executions are kept.
alter table workspaces
  add column deleting boolean not null default false,
  add column retention_days int not null default 30;

-- Finished executions by their end, for retention.
create index executions_finished on executions (workspace_id, finished_at) where finished_at is not null;
