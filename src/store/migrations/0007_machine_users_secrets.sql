-- Who scripts run as, and what they keep secret.
--
--   machine_users  identities that a start or an invocation chooses by namespace and name
--   vaults         names that secrets stand under
--   secrets        values, encrypted by the server; the key is not in the database

create table machine_users (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  id uuid not null,
  namespace text not null,
  name text not null,
  -- JSON array and object, as `tailor.context.getInvoker()` answers them
  attributes text not null,
  attribute_map text not null,
  created_at timestamptz not null default jobcell_now(),
  updated_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, namespace, name),
  unique (workspace_id, id)
);

create table vaults (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  id uuid not null,
  name text not null,
  created_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, name),
  unique (workspace_id, id)
);

create table secrets (
  workspace_id uuid not null,
  vault text not null,
  id uuid not null,
  name text not null,
  -- which of the server's keys it was encrypted with
  key_id text not null,
  -- nonce, ciphertext and tag of AES-256-GCM; workspace, vault and name are authenticated with it
  sealed bytea not null,
  created_at timestamptz not null default jobcell_now(),
  updated_at timestamptz not null default jobcell_now(),
  primary key (workspace_id, vault, name),
  unique (workspace_id, vault, id),
  foreign key (workspace_id, vault) references vaults (workspace_id, name) on delete cascade
);
-- Secrets that a rotation has yet to encrypt again.
create index secrets_by_key on secrets (key_id);
