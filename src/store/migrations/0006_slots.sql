-- The functions that take slots, give them back, and decide who waits (E4, D16-D22).
--
-- One lock per workspace: the row `workspace` of its pools. Every change of a pool, of a policy, and of what an execution
-- holds is made under it, so that caps are looked at and slots taken as one, all pools of a dispatch or none. Each
-- function is one statement of the server: no lock is held over a round trip, or over a server that falls silent.
-- (Locking each pool by itself wins nothing, since every dispatch counts in `workspace`, and needs to know what an
-- execution holds before its row is locked.)
--
-- Functions with queries of their own are PL/pgSQL also where SQL would do, and plan generically: before PostgreSQL 18 one
-- in SQL is planned with each call, and five plans made for their values cost more than the calls (a claim on a new
-- connection took 8 ms instead of 2).
--
-- Rows are looked up in a subquery of their own for each key (`lateral`, with `offset 0` where nothing is locked), so that
-- the plan is one of the primary key whatever the statistics say: joined freely, the journal was read by a part of its
-- key, and a step cost as much as its execution had steps before (250 ms for 32 ends after 600 steps, instead of 3).
--
-- Order of locks, everywhere: workspaces and workflows; pools, by workspace; executions, by workspace and id; journal
-- (D2, D21). PL/pgSQL, because each statement in a function sees what was committed before the lock it waited for.

create function lock_pools(p_workspaces uuid[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  perform from pools where pool = 'workspace' and workspace_id = any(p_workspaces)
  order by workspace_id for no key update;
end $$;

-- The cap of a key: the smallest of the policies that cover it; null when none does.
create function key_cap(p_workspace uuid, p_key text) returns int
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
  return (
    select min(cap) from execution_policies
    where workspace_id = p_workspace and (key = p_key or (match_type = 'prefix' and starts_with(p_key, key))));
end $$;

create type slot_change as (workspace_id uuid, pool text, slots int);

-- Takes slots (above 0) and gives them back (below), and wakes the servers when somebody may wait for what came free.
create function move_slots(p_changes slot_change[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  wanted boolean;
begin
  with c as (
    select workspace_id, pool, sum(slots)::int as slots from unnest(p_changes) group by workspace_id, pool),
  u as (
    update pools p set used = p.used + c.slots from c
    where p.workspace_id = c.workspace_id and p.pool = c.pool and c.slots <> 0
    returning p.awaited and c.slots < 0 and (p.cap is null or p.used < p.cap) as wanted)
  select bool_or(u.wanted) into wanted from u;
  if wanted then perform pg_notify('jobcell', 'pending'); end if;
end $$;

-- Everything that a stack of this form takes, in the order in which it is looked for: what is scarcest first, so that who
-- waits is queued for that.
create function slots_of(p_workspace uuid, p_workflow text, p_frames int, p_keys text[]) returns slot_change[]
language plpgsql immutable as $$
begin
  return array(select row(p_workspace, 'key:' || k, 1)::slot_change from unnest(p_keys) k order by k)
    || array[row(p_workspace, 'workflow:' || p_workflow, 1)::slot_change, row(p_workspace, 'executions', 1)::slot_change,
             row(p_workspace, 'workspace', p_frames)::slot_change];
end $$;

-- The first pool that lacks room for an execution; null when all have it. What is kept for another one is no room (D20).
-- With `p_yield` neither is what an older execution is queued for and could take: an execution that runs does not
-- overtake it (D20).
create function blocking_pool(p_execution uuid, p_slots slot_change[], p_yield boolean) returns text
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
  return (
    select p.pool
    from unnest(p_slots) with ordinality n(workspace_id, pool, slots, place)
      join pools p on p.workspace_id = n.workspace_id and p.pool = n.pool
    where n.slots > 0 and (
      p.used + n.slots > p.cap
        - case when p.earmark <> p_execution and p.earmark_until > jobcell_now() then p.earmark_slots else 0 end
      or (p_yield and p.awaited and exists (
        select from executions w
        where w.workspace_id = p.workspace_id and w.blocked_on = p.pool and w.id < p_execution
          and case when p.pool = 'workspace' then w.frames else 1 end <= p.cap - p.used)))
    order by n.place limit 1);
end $$;

-- A stack that changes: what it is to hold, and what that takes and gives back.
create type stack_change as (
  workspace_id uuid, execution_id uuid, path text, frames int, keys text[], new_key text, slots slot_change[]);

create function keys_without(p_keys text[], p_others text[]) returns text[] language plpgsql immutable as $$
begin
  return array(select k from unnest(p_keys) k where k <> all(p_others));
end $$;

create function changed_keys(p_workspace uuid, p_before text[], p_after text[]) returns slot_change[]
language plpgsql immutable as $$
begin
  return array(select row(p_workspace, 'key:' || k, 1)::slot_change from unnest(keys_without(p_after, p_before)) k)
    || array(select row(p_workspace, 'key:' || k, -1)::slot_change from unnest(keys_without(p_before, p_after)) k);
end $$;

-- What a stack takes and gives back that has so many bodies more, and had some keys before and has others now. (Written so
-- that it is inlined: the planner cannot look into a function with a query of its own.)
create function stack_slots(p_workspace uuid, p_more int, p_before text[], p_after text[]) returns slot_change[]
language sql immutable as $$
  select case when p_before = p_after then '{}'::slot_change[]
              when p_after = p_before || p_after[cardinality(p_after)]
                then array[row(p_workspace, 'key:' || p_after[cardinality(p_after)], 1)::slot_change]
              when p_before = p_after || p_before[cardinality(p_before)]
                then array[row(p_workspace, 'key:' || p_before[cardinality(p_before)], -1)::slot_change]
              else changed_keys(p_workspace, p_before, p_after) end
    || row(p_workspace, 'workspace', p_more)::slot_change
$$;

-- Under the lock of the pools: rows for keys that are used for the first time.
create function add_key_pools(p_changes stack_change[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  insert into pools (workspace_id, pool, cap)
  select distinct s.workspace_id, s.pool, key_cap(s.workspace_id, substr(s.pool, length('key:') + 1))
  from unnest(p_changes) c, unnest(c.slots) s
  where s.pool like 'key:%' and s.slots > 0
    and not exists (select from pools p where p.workspace_id = s.workspace_id and p.pool = s.pool);
end $$;

-- (By the primary key, also while the planner takes the table for a small one.)
create function change_stacks(p_changes stack_change[]) returns void language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  perform move_slots(array(select row(s.*)::slot_change from unnest(p_changes) c, unnest(c.slots) s));
  update executions e set frames = c.frames, keys = c.keys
  from unnest(p_changes) c
  where e.workspace_id = c.workspace_id and e.id = c.execution_id and (e.frames <> c.frames or e.keys <> c.keys);
end $$;

-- Whether the changes can be made together, without a look at who they are for: nobody waits for what they take.
create function fit_together(p_changes stack_change[]) returns boolean
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
  return not exists (
    select from (
        select s.workspace_id, s.pool, sum(s.slots) as slots from unnest(p_changes) c, unnest(c.slots) s
        where s.slots > 0 group by s.workspace_id, s.pool) n
      join pools p on p.workspace_id = n.workspace_id and p.pool = n.pool
    where p.awaited or p.earmark_until > jobcell_now() or p.used + n.slots > p.cap);
end $$;

-- Bodies are about to start: each stack is to hold `frames` slots of its workspace and its `keys` (separated by spaces),
-- of which `own` is the new body's. A body that ran before may be on its way back to where its stack was: what is held
-- beyond that is reserved for it (D18). One that never ran has nothing above it.
-- Answers what becomes of each whose claim stands and whose start is not overtaken (D3): `started`, `blocked`, or
-- `uncovered` when no policy covers the key of a call whose body never ran, also of one that was refused before. Only `started` changes anything.
create function grow_stacks(
  p_workspaces uuid[], p_executions uuid[], p_fences bigint[], p_paths text[], p_runs int[], p_frames int[],
  p_keys text[], p_own text[])
returns table (execution_id uuid, path text, outcome text)
language plpgsql rows 10 set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  changes stack_change[];
  change stack_change;
begin
  -- main's slot was taken with the claim (D19)
  if exists (select from unnest(p_frames) f where f > 1) then
    perform lock_pools(array(select w from unnest(p_workspaces, p_frames) x (w, f) where f > 1));
  end if;
  select array_agg(locked.change order by (locked.change).execution_id) into changes from (
    select row(x.workspace_id, x.execution_id, x.path, s.frames, s.keys,
               case when x.run = 1 and coalesce(j.runs, 0) = 0 then x.own end,
               stack_slots(x.workspace_id, s.frames - e.frames, e.keys, s.keys))::stack_change as change
    from (
        select * from unnest(p_workspaces, p_executions, p_fences, p_paths, p_runs, p_frames, p_keys, p_own)
          as x (workspace_id, execution_id, fence, path, run, frames, keys, own)
        order by workspace_id, execution_id) x
      cross join lateral (
        select e.fence, e.status, e.frames, e.keys from executions e
        where e.workspace_id = x.workspace_id and e.id = x.execution_id for no key update) e
      left join lateral (
        select j.status, j.runs from journal j
        where j.workspace_id = x.workspace_id and j.execution_id = x.execution_id and j.path = x.path offset 0) j on true
      cross join lateral (select string_to_array(x.keys, ' ') as keys offset 0) n
      -- a start that is sent again changes nothing: its body may be far on by now
      cross join lateral (
        select case when j.runs = x.run then e.frames
                    when x.run = 1 and x.frames > 1 then x.frames else greatest(x.frames, e.frames) end as frames,
               case when j.runs = x.run then e.keys
                    when x.run = 1 and x.frames > 1 or n.keys = e.keys then n.keys
                    else e.keys || keys_without(n.keys, e.keys) end as keys
        offset 0) s
    where e.fence = x.fence and e.status = 'RUNNING'
      and (j.runs is null or (j.status <> 'SUCCESS' and (j.runs < x.run or (j.runs = x.run and j.status = 'RUNNING'))))
    ) locked;
  if changes is null then return; end if;

  if exists (select from unnest(p_keys) k where k <> '') then
    perform add_key_pools(changes);
    return query
      select c.execution_id, c.path, 'uncovered' from unnest(changes) c
        join pools p on p.workspace_id = c.workspace_id and p.pool = 'key:' || c.new_key
      where p.cap is null;
    changes := array(
      select c from unnest(changes) c
      where not exists (
        select from pools p where p.workspace_id = c.workspace_id and p.pool = 'key:' || c.new_key and p.cap is null)
      order by c.execution_id);
  end if;

  if fit_together(changes) then
    perform change_stacks(changes);
    return query select c.execution_id, c.path, 'started' from unnest(changes) c;
    return;
  end if;
  -- One by one, in the order of their creation (D20).
  foreach change in array changes loop
    execution_id := change.execution_id;
    path := change.path;
    if blocking_pool(change.execution_id, change.slots, true) is null then
      perform change_stacks(array[change]);
      outcome := 'started';
    else
      outcome := 'blocked';
    end if;
    return next;
  end loop;
end $$;

-- Bodies have ended: each stack is to hold no more than `frames` slots of its workspace and `keys`. Answers those whose
-- claim stands; only an end that comes for the first time gives anything back (D3).
create function shrink_stacks(
  p_workspaces uuid[], p_executions uuid[], p_fences bigint[], p_paths text[], p_runs int[], p_frames int[],
  p_keys text[])
returns table (workspace_id uuid, execution_id uuid, path text)
language plpgsql rows 10 set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  changes stack_change[];
begin
  perform lock_pools(p_workspaces);
  select array_agg(locked.change) into changes from (
    select row(x.workspace_id, x.execution_id, x.path, s.frames, s.keys, null,
               stack_slots(x.workspace_id, s.frames - e.frames, e.keys, s.keys))::stack_change as change
    from (
        select * from unnest(p_workspaces, p_executions, p_fences, p_paths, p_runs, p_frames, p_keys)
          as x (workspace_id, execution_id, fence, path, run, frames, keys)
        order by workspace_id, execution_id) x
      cross join lateral (
        select e.fence, e.status, e.frames, e.keys from executions e
        where e.workspace_id = x.workspace_id and e.id = x.execution_id for no key update) e
      cross join lateral (
        select j.status, j.runs from journal j
        where j.workspace_id = x.workspace_id and j.execution_id = x.execution_id and j.path = x.path offset 0) j
      cross join lateral (select string_to_array(x.keys, ' ') as keys offset 0) n
      cross join lateral (
        select case when j.status = 'RUNNING' then least(x.frames, e.frames) else e.frames end as frames,
               case when j.status <> 'RUNNING' then e.keys
                    when n.keys <@ e.keys then n.keys
                    else keys_without(e.keys, keys_without(e.keys, n.keys)) end as keys
        offset 0) s
    where e.fence = x.fence and e.status = 'RUNNING' and j.runs = x.run) locked;
  if changes is null then return; end if;
  perform change_stacks(changes);
  return query select c.workspace_id, c.execution_id, c.path from unnest(changes) c;
end $$;

-- Gives back all that executions hold which are held under these claims, and leaves their rows locked: the statement that
-- calls this goes on to clear their `holder`. Answers which they are.
create function free_slots(p_workspaces uuid[], p_executions uuid[], p_fences bigint[])
returns table (workspace_id uuid, execution_id uuid)
language plpgsql rows 1 set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  freed uuid[];
  given slot_change[];
begin
  perform lock_pools(p_workspaces);
  select array_agg(held.id), array_agg(s) into freed, given
  from (
      select e.id, slots_of(x.workspace_id, e.workflow, e.frames, e.keys) as slots
      from (
          select * from unnest(p_workspaces, p_executions, p_fences) as x (workspace_id, execution_id, fence)
          order by workspace_id, execution_id) x
        cross join lateral (
          select e.id, e.fence, e.holder, e.workflow, e.frames, e.keys from executions e
          where e.workspace_id = x.workspace_id and e.id = x.execution_id for no key update) e
      where e.fence = x.fence and e.holder is not null) held,
    unnest(held.slots) s;
  if freed is null then return; end if;
  perform move_slots(array(select row(g.workspace_id, g.pool, -g.slots)::slot_change from unnest(given) g));
  return query
    select x.workspace_id, x.execution_id from unnest(p_workspaces, p_executions) as x (workspace_id, execution_id)
    where x.execution_id = any(freed);
end $$;

-- A dispatch found no room, and nothing of its run is left in a cell (D4, D21): either there is room by now, and its stack
-- holds what it needs from here on (`taken`); or the execution gives back everything and waits in PENDING_RESUME for
-- all of it (`suspended`, D18, E5). Null: the claim is lost.
create function suspend_execution(p_workspace uuid, p_execution uuid, p_fence bigint, p_frames int, p_keys text[])
returns text language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  execution record;
  change stack_change;
  blocking text;
begin
  perform lock_pools(array[p_workspace]);
  select e.status, e.holder, e.frames, e.keys into execution from executions e
  where e.workspace_id = p_workspace and e.id = p_execution and e.fence = p_fence for no key update;
  -- the answer to the first sending was lost (D3)
  if execution.status = 'PENDING_RESUME' and execution.holder is null then return 'suspended'; end if;
  if execution.status is distinct from 'RUNNING' then return null; end if;
  change := row(p_workspace, p_execution, '', p_frames, p_keys, null,
                stack_slots(p_workspace, p_frames - execution.frames, execution.keys, p_keys));
  perform add_key_pools(array[change]);
  blocking := blocking_pool(p_execution, change.slots, true);
  if blocking is null then
    perform change_stacks(array[change]);
    return 'taken';
  end if;
  perform free_slots(array[p_workspace], array[p_execution], array[p_fence]);
  update executions set status = 'PENDING_RESUME', holder = null, frames = p_frames, keys = p_keys,
    blocked_on = blocking, blocked_since = jobcell_now(), passed = 0
  where workspace_id = p_workspace and id = p_execution;
  update journal set status = 'SUSPEND'
  where workspace_id = p_workspace and execution_id = p_execution and status = 'RUNNING';
  update pools set awaited = true where workspace_id = p_workspace and pool = blocking and not awaited;
  return 'suspended';
end $$;

-- An execution that does not fit waits for the pool that lacks room. Of those that came in together with it, the rest
-- that want a slot of the same full pool are queued at once, so that they are not tried one by one.
create function queue_execution(
  p_workspace uuid, p_execution uuid, p_pool text, p_slots slot_change[], p_starving_after interval, p_starving_tries int)
returns void language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  starving boolean;
  was_new boolean;
begin
  select blocked_on is null into was_new from executions where workspace_id = p_workspace and id = p_execution;
  update executions
  set blocked_on = p_pool, blocked_since = coalesce(blocked_since, jobcell_now()), passed = passed + 1
  where workspace_id = p_workspace and id = p_execution
  returning passed >= p_starving_tries or blocked_since <= jobcell_now() - p_starving_after into starving;
  update pools set awaited = true where workspace_id = p_workspace and pool = p_pool and not awaited;
  if starving then
    -- D20: what comes free in its pools is kept for the oldest of those; the note ends by itself when it is gone.
    update pools p set earmark = p_execution, earmark_slots = s.slots, earmark_until = jobcell_now() + interval '15 s'
    from unnest(p_slots) s
    where p.workspace_id = s.workspace_id and p.pool = s.pool
      and (p.earmark is null or p.earmark >= p_execution or p.earmark_until <= jobcell_now());
  end if;
  if was_new and (p_pool = 'executions' or p_pool like 'workflow:%') then
    update executions e set blocked_on = p_pool, blocked_since = jobcell_now(), passed = e.passed + 1
    from (
      select id from executions
      where workspace_id = p_workspace and status in ('PENDING', 'PENDING_RESUME') and blocked_on is null
        and holder is null and (p_pool = 'executions' or 'workflow:' || workflow = p_pool)
      order by id limit 500 for no key update skip locked) o
    where e.workspace_id = p_workspace and e.id = o.id;
  end if;
end $$;

-- Executions that may fit: new ones, due retries, and the oldest of those that are queued for a pool which has room. With
-- `p_tick` also the oldest of each pool that is starving. A workspace whose pool has room and no one queued for it is
-- answered without an execution.
create function claim_candidates(p_limit int, p_tick boolean, p_starving_after interval, p_starving_tries int)
returns table (workspace_id uuid, id uuid) language sql stable as $$
  (select workspace_id, id from executions
   where status in ('PENDING', 'PENDING_RESUME') and blocked_on is null and holder is null
   order by id limit p_limit)
  union all
  (select workspace_id, id from executions
   where status = 'PENDING_RETRY' and retry_after <= jobcell_now() and blocked_on is null
   order by retry_after limit p_limit)
  union all
  select p.workspace_id, w.id
  from pools p
    join pools x on x.workspace_id = p.workspace_id and x.pool = 'executions'
    join pools d on d.workspace_id = p.workspace_id and d.pool = 'workspace'
    left join lateral (
      select e.id from executions e
      where e.workspace_id = p.workspace_id and e.blocked_on = p.pool
        and (p.cap is null
          or p.used + case when p.pool = 'workspace' then e.frames else 1 end
            + case when p.earmark <> e.id and p.earmark_until > jobcell_now() then p.earmark_slots else 0 end <= p.cap)
      order by e.id limit least(p_limit, coalesce(p.cap - p.used, p_limit))) w on true
  where p.awaited and (p.cap is null or p.used < p.cap)
    -- nobody of a full workspace can go, whatever else has room
    and (p.pool = 'executions' or not x.awaited or x.used < x.cap)
    and (p.pool = 'workspace' or not d.awaited or d.used < d.cap)
  union all
  select p.workspace_id, w.id
  from pools p
    cross join lateral (
      select e.id from executions e
      where e.workspace_id = p.workspace_id and e.blocked_on = p.pool
        and (e.passed >= p_starving_tries or e.blocked_since <= jobcell_now() - p_starving_after)
      order by e.id limit 1) w
  where p_tick and p.awaited
    and (p.earmark is null or p.earmark > w.id or p.earmark_until <= jobcell_now() + interval '10 s')
$$;

-- Claims up to `p_limit` executions for a server, oldest first, whoever fits (D19, D20), each with all that its stack
-- needs (D18). Nothing is claimed under a lease that has run out (D1). A last row with `again` and no execution says that
-- others may fit now that some are queued elsewhere.
create function claim_executions(
  p_server uuid, p_limit int, p_tick boolean, p_starving_after interval, p_starving_tries int)
returns table (claimed executions, again boolean) language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  spaces uuid[];
  ids uuid[];
  candidate record;
  needs slot_change[];
  blocking text;
  room int := p_limit;
  full_pools text[] := '{}';
  unsure boolean := false;
begin
  -- locked against a takeover of this server
  perform from servers where servers.id = p_server and expires_at > jobcell_now() for key share;
  if not found then return; end if;
  select array_agg(c.workspace_id), array_agg(c.id) into spaces, ids
  from (
    select * from claim_candidates(p_limit + 16, p_tick, p_starving_after, p_starving_tries)
    order by id limit 2 * p_limit + 16) c;
  if spaces is null then return; end if;
  perform lock_pools(spaces);
  for candidate in
    select e.* from (
        select distinct x.workspace_id, x.id from unnest(spaces, ids) x (workspace_id, id)
        where x.id is not null order by x.id) x
      cross join lateral (
        select e.workspace_id, e.id, e.workflow, e.frames, e.keys, e.blocked_on, e.status, e.retry_after from executions e
        where e.workspace_id = x.workspace_id and e.id = x.id and e.holder is null for no key update skip locked) e
    where e.status in ('PENDING', 'PENDING_RESUME') or (e.status = 'PENDING_RETRY' and e.retry_after <= jobcell_now())
  loop
    if room = 0 then
      unsure := true;
      exit;
    end if;
    continue when candidate.blocked_on is null and (
      candidate.workspace_id || ' executions' = any(full_pools)
      or candidate.workspace_id || ' workflow:' || candidate.workflow = any(full_pools));
    needs := slots_of(candidate.workspace_id, candidate.workflow, candidate.frames, candidate.keys);
    perform add_key_pools(array[row(candidate.workspace_id, candidate.id, '', 0, null, null, needs)::stack_change]);
    blocking := blocking_pool(candidate.id, needs, false);
    if blocking is null then
      perform move_slots(needs);
      update pools set earmark = null, earmark_slots = null, earmark_until = null
      where workspace_id = candidate.workspace_id and earmark = candidate.id;
      update executions e
      set status = 'RUNNING', holder = p_server, fence = e.fence + 1, started_at = coalesce(e.started_at, jobcell_now()),
          error = null, retry_after = null, blocked_on = null, blocked_since = null, passed = 0
      where e.workspace_id = candidate.workspace_id and e.id = candidate.id
      returning e.* into claimed;
      again := false;
      room := room - 1;
      return next;
    else
      unsure := true;
      perform queue_execution(candidate.workspace_id, candidate.id, blocking, needs, p_starving_after, p_starving_tries);
      full_pools := full_pools || (candidate.workspace_id || ' ' || blocking);
    end if;
  end loop;
  update pools p set awaited = false
  where p.workspace_id = any(spaces) and p.awaited
    and not exists (select from executions e where e.workspace_id = p.workspace_id and e.blocked_on = p.pool);
  if unsure then
    claimed := null;
    again := true;
    return next;
  end if;
end $$;

-- The caps of all keys that a policy covers, or covered. Under the lock of the pools; wakes who may fit now.
create function policy_changed(p_workspace uuid, p_key text) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  update pools set cap = key_cap(p_workspace, substr(pool, length('key:') + 1))
  where workspace_id = p_workspace and starts_with(pool, 'key:' || p_key)
    and cap is distinct from key_cap(p_workspace, substr(pool, length('key:') + 1));
  perform pg_notify('jobcell', 'pending');
end $$;

-- Declares or changes a policy; `p_key` null is the key it has, or its name. No row: it has another key.
create function put_execution_policy(
  p_workspace uuid, p_name text, p_key text, p_match_type text, p_declared int, p_cap int)
returns setof execution_policies language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  policy execution_policies;
begin
  perform from workspaces where id = p_workspace for key share;
  perform lock_pools(array[p_workspace]);
  insert into execution_policies as e (workspace_id, name, key, match_type, max_concurrent_executions, cap)
  values (p_workspace, p_name, coalesce(p_key, p_name), p_match_type, p_declared, p_cap)
  on conflict (workspace_id, name) do update
    set match_type = excluded.match_type, max_concurrent_executions = excluded.max_concurrent_executions,
        cap = excluded.cap, updated_at = jobcell_now()
    where p_key is null or e.key = p_key
  returning e.* into policy;
  if not found then return; end if;
  perform policy_changed(p_workspace, policy.key);
  return next policy;
end $$;

create function delete_execution_policy(p_workspace uuid, p_name text) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  gone text;
begin
  perform lock_pools(array[p_workspace]);
  delete from execution_policies where workspace_id = p_workspace and name = p_name returning key into gone;
  if not found then return false; end if;
  perform policy_changed(p_workspace, gone);
  return true;
end $$;

-- D29: the status and a new claim number commit at once; what it holds stays until its holder confirms. A function, so
-- that a step which started while the row's lock was waited for is canceled with it.
create function cancel_execution(p_workspace uuid, p_execution uuid) returns table (before text, canceled boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  new_fence bigint;
begin
  select e.status into before from executions e
  where e.workspace_id = p_workspace and e.id = p_execution for no key update;
  if not found then return; end if;
  canceled := before not in ('SUCCESS', 'FAILED', 'CANCELED');
  if canceled then
    update executions e
    set status = 'CANCELED', fence = e.fence + 1, finished_at = jobcell_now(), retry_after = null, blocked_on = null,
        blocked_since = null, passed = 0,
        -- what it waited for: a resume begins with main. What it still holds is let go with its holder.
        frames = case when e.holder is null then 1 else e.frames end,
        keys = case when e.holder is null then '{}' else e.keys end
    where e.workspace_id = p_workspace and e.id = p_execution
    returning e.fence into new_fence;
    update journal j set status = 'CANCELED'
    where j.workspace_id = p_workspace and j.execution_id = p_execution and j.status in ('RUNNING', 'SUSPEND', 'WAITING');
    -- the attempt is over, and no mismatch can end it any more (D8)
    delete from resumes r where r.workspace_id = p_workspace and r.execution_id = p_execution;
    perform pg_notify('jobcell', 'stop:' || p_execution || ':' || new_fence);
    perform pg_notify('jobcell', 'final:' || p_execution);
  end if;
  return next;
end $$;

-- What executions hold, summed up for each pool.
create view held_slots as
select workspace_id, pool, sum(slots)::int as slots from (
  select workspace_id, 'executions' as pool, 1 as slots from executions where holder is not null
  union all select workspace_id, 'workflow:' || workflow, 1 from executions where holder is not null
  union all select workspace_id, 'workspace', frames from executions where holder is not null
  union all select workspace_id, 'key:' || k, 1 from executions, unnest(keys) k where holder is not null) s
group by workspace_id, pool;

create view wrong_pools as
select p.workspace_id, p.pool, p.used, coalesce(h.slots, 0) as held
from pools p left join held_slots h on h.workspace_id = p.workspace_id and h.pool = p.pool
where p.used <> coalesce(h.slots, 0);

-- Sets right what should never be wrong: a slot that nobody holds and that is counted would be lost for good, and its
-- workspace with it, for example after a server of an older release wrote to this database. Answers what was wrong.
create function recount_pools() returns table (pool text, used int, held int) language plpgsql as $$
#variable_conflict use_column
declare
  spaces uuid[];
begin
  select array_agg(workspace_id) into spaces from wrong_pools;
  if spaces is null then return; end if;
  perform lock_pools(spaces);
  return query
    with wrong as materialized (select * from wrong_pools where workspace_id = any(spaces)),
    u as (
      update pools p set used = wrong.held from wrong
      where p.workspace_id = wrong.workspace_id and p.pool = wrong.pool)
    select wrong.pool, wrong.used, wrong.held from wrong;
  perform pg_notify('jobcell', 'pending');
end $$;
