-- D8: what a resume changed, kept until its attempt ends, since one that ends in ARGUMENT_MISMATCH is undone.
create table resumes (
  workspace_id uuid not null,
  execution_id uuid not null,
  -- of the execution, as they were
  revision bigint not null,
  job_functions text not null,
  error text,
  -- records that the resume left as they are, all of them finished
  kept_records int not null,
  primary key (workspace_id, execution_id),
  foreign key (workspace_id, execution_id) references executions (workspace_id, id) on delete cascade
);

-- The records that it changed or forgot, each as the whole row of the journal that it was.
create table resume_records (
  workspace_id uuid not null,
  execution_id uuid not null,
  path text not null,
  forgotten boolean not null,
  record json not null,
  primary key (workspace_id, execution_id, path),
  foreign key (workspace_id, execution_id) references resumes (workspace_id, execution_id) on delete cascade
);

-- D31: whoever deletes it by force does not wait for the functions that run in it; they are ended.
alter table workspaces add column deleting_by_force boolean not null default false;
