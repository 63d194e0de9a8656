-- Scripts' own tables.
--
--   tailordb_databases   the database of a workspace's namespaces, on the same PostgreSQL server as this one
--   tailordb_namespaces  a namespace: a schema in that database and two login roles
--
-- Names are made of `id` and `number` (src/store/tailordb/names.ts).

create table tailordb_databases (
  -- no foreign key: the row outlives its workspace until the database is dropped
  workspace_id uuid primary key,
  id uuid not null unique,
  created_at timestamptz not null default jobcell_now()
);

create table tailordb_namespaces (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  id uuid not null,
  name text not null,
  number int not null,
  created_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, name),
  unique (workspace_id, id),
  unique (workspace_id, number)
);
