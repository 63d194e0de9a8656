-- Caps: what a workspace declares, and how much of each pool is taken.
--
--   execution_policies  a key, or a prefix of keys, and how many dispatches under it may run at once
--   pools               one row per pool: its cap, and how many of its slots are held
--
-- The names of pools: `workspace` counts every dispatch, `executions` the executions that run, `workflow:NAME` those of
-- one workflow, `key:KEY` the stacks in which a dispatch with that key runs (D17).
-- A prefix policy gives every resolved key a pool of its own (D16). So all pools of one key, however many policies cover
-- it, always hold the same dispatches: one row stands for them, with the smallest of their caps.

create table execution_policies (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  name text not null,
  key text collate "C" not null,
  match_type text not null check (match_type in ('exact', 'prefix')),
  -- what was declared, and what counts: the platform's own cap where nothing was
  max_concurrent_executions int,
  cap int not null,
  created_at timestamptz not null default jobcell_now(),
  updated_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, name)
);

create table pools (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  pool text collate "C" not null,
  -- null: no policy covers the key any more; what runs under it is counted nevertheless, for the policy that may come
  cap int,
  used int not null default 0 check (used >= 0),
  -- whether an execution may be queued for it (`blocked_on`): whoever frees a slot of it wakes the servers
  awaited boolean not null default false,
  -- D20: the oldest execution that was passed over for too long, how many slots are kept for it, and until when, unless
  -- it is still there then
  earmark uuid,
  earmark_slots int,
  earmark_until timestamptz,
  primary key (workspace_id, pool)
-- a counter changes with every dispatch: room on its page for the next version
) with (fillfactor = 40);
create index pools_awaited on pools (workspace_id, pool) where awaited;

-- What an execution holds from the moment a server holds it: a slot of `executions` and of its workflow's pool, `frames`
-- slots of `workspace`, and one of each key in `keys`. While it waits, `frames` and `keys` are what its stack needs, and
-- it goes on when all of that is free (D18).
alter table executions
  add column frames int not null default 1,
  add column keys text[] not null default '{}',
  -- the pool that lacked room when it was tried last, since when it is refused, and how often it was
  add column blocked_on text collate "C",
  add column blocked_since timestamptz,
  add column passed int not null default 0,
  add constraint executions_blocked check (
    blocked_on is null or (holder is null and status in ('PENDING', 'PENDING_RESUME', 'PENDING_RETRY'))),
  set (fillfactor = 80);

drop index executions_claimable;
create index executions_claimable on executions (id)
  where status in ('PENDING', 'PENDING_RESUME') and blocked_on is null;
create index executions_blocked on executions (workspace_id, blocked_on, id) where blocked_on is not null;

-- By its id alone: where statistics are not there yet, an index on the workspace and the id was taken for one on the
-- workspace, and every step of it read.
drop index journal_by_id;
create index journal_by_id on journal (id);

insert into pools (workspace_id, pool, cap)
select w.id, p.pool, p.cap from workspaces w, (values ('workspace', 100), ('executions', 50)) p (pool, cap);
insert into pools (workspace_id, pool, cap)
select workspace_id, 'workflow:' || name, least(20, max_concurrent_executions) from workflows;

-- What runs while this is applied.
update executions e set frames = greatest(1, (
  select count(*) from journal j
  where j.workspace_id = e.workspace_id and j.execution_id = e.id and j.kind = 'job' and j.status = 'RUNNING'))
where holder is not null;
update pools p set used = h.used
from (
  select workspace_id, 'workspace' as pool, sum(frames) as used from executions where holder is not null group by 1
  union all
  select workspace_id, 'executions', count(*) from executions where holder is not null group by 1
  union all
  select workspace_id, 'workflow:' || workflow, count(*) from executions where holder is not null group by 1, 2) h
where p.workspace_id = h.workspace_id and p.pool = h.pool;
