import { type FieldError, JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import { type Pool, type Queryable, transaction } from './database.ts';
import { unfinishedStatuses } from './execution-reads.ts';
import { channel, pendingMessage } from './executions.ts';
import { currentVersion, listScriptNames } from './scripts.ts';

/** When and how often a FAILED execution is tried again; durations as in `500ms`, `10s`, `5m`. */
export interface RetryPolicy {
  maxRetries: number;
  initialBackoff: string;
  maxBackoff: string;
  backoffMultiplier: number;
}

export interface WorkflowDefinition {
  mainJobFunction: string;
  /** Job function name -> version that executions of this workflow use instead of the newest. */
  jobFunctions: Record<string, number>;
  concurrencyPolicy: { maxConcurrentExecutions: number } | null;
  retryPolicy: RetryPolicy | null;
}

export interface Workflow extends WorkflowDefinition {
  name: string;
  createdAt: Date;
  updatedAt: Date;
}

interface WorkflowRow {
  name: string;
  main_job_function: string;
  job_functions: string;
  max_concurrent_executions: number | null;
  retry_policy: string | null;
  created_at: Date;
  updated_at: Date;
}

const columns =
  'name, main_job_function, job_functions, max_concurrent_executions, retry_policy, created_at, updated_at';

function toWorkflow(row: WorkflowRow): Workflow {
  const cap = row.max_concurrent_executions;
  return {
    name: row.name,
    mainJobFunction: row.main_job_function,
    jobFunctions: JSON.parse(row.job_functions),
    concurrencyPolicy: cap === null ? null : { maxConcurrentExecutions: cap },
    retryPolicy: row.retry_policy === null ? null : JSON.parse(row.retry_policy),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

/**
 * Creates a workflow or replaces its definition.
 * @throws JobcellError BAD_REQUEST when it names a job function or a version that is not there.
 */
export async function putWorkflow(
  pool: Pool,
  workspaceId: string,
  name: string,
  definition: WorkflowDefinition,
): Promise<Workflow> {
  return transaction(pool, async (db) => {
    // Against a delete of the job functions it names: that one takes the row for itself (scripts.ts).
    await db.query('select from workspaces where id = $1 for share', [workspaceId]);
    await checkReferences(db, workspaceId, definition);
    const { rows } = await db.query<WorkflowRow>(
      `insert into workflows (workspace_id, name, main_job_function, job_functions, max_concurrent_executions, retry_policy)
       values ($1, $2, $3, $4, $5, $6)
       on conflict (workspace_id, name) do update set main_job_function = $3, job_functions = $4,
         max_concurrent_executions = $5, retry_policy = $6, updated_at = jobcell_now()
       returning ${columns}`,
      [
        workspaceId,
        name,
        definition.mainJobFunction,
        JSON.stringify(definition.jobFunctions),
        definition.concurrencyPolicy?.maxConcurrentExecutions ?? null,
        definition.retryPolicy === null ? null : JSON.stringify(definition.retryPolicy),
      ],
    );
    await putWorkflowCap(db, workspaceId, name, definition);
    return toWorkflow(rows[0]!);
  });
}

/** The cap counts from now on: a lower one ends nothing that runs, a higher one lets waiters go at once. */
async function putWorkflowCap(
  db: Queryable,
  workspaceId: string,
  name: string,
  { concurrencyPolicy }: WorkflowDefinition,
): Promise<void> {
  const cap = Math.min(
    limits.workflowExecutions,
    concurrencyPolicy?.maxConcurrentExecutions ?? Number.POSITIVE_INFINITY,
  );
  await db.query(
    `with locked as materialized (select lock_pools(array[$1::uuid])),
     p as (
       insert into pools (workspace_id, pool, cap) select $1::uuid, 'workflow:' || $2::text, $3::int from locked
       on conflict (workspace_id, pool) do update set cap = excluded.cap returning pool)
     select pg_notify('${channel}', '${pendingMessage}') from p`,
    [workspaceId, name, cap],
  );
}

async function checkReferences(db: Queryable, workspaceId: string, definition: WorkflowDefinition): Promise<void> {
  const errors: FieldError[] = [];
  const main = definition.mainJobFunction;
  if ((await currentVersion(db, { workspaceId, type: 'JOB', name: main })) === null) {
    errors.push({ path: 'mainJobFunction', message: await describeMissing(db, workspaceId, main) });
  }
  const pins = Object.entries(definition.jobFunctions);
  const { rows } = await db.query<{ name: string; version: number }>(
    `select p.name, p.version from unnest($2::text[], $3::int[]) p (name, version)
     where not exists (select 1 from script_versions v where v.workspace_id = $1 and v.type = 'JOB'
                         and v.name = p.name and v.version = p.version)`,
    [workspaceId, pins.map(([name]) => name), pins.map(([, version]) => version)],
  );
  for (const pin of rows) {
    errors.push({
      path: `jobFunctions.${pin.name}`,
      message: `names version ${pin.version} of job function \`${pin.name}\`, which does not exist`,
    });
  }
  if (errors.length === 0) return;
  const list = errors.map((error) => `\`${error.path}\` ${error.message}`).join('; ');
  throw new JobcellError('BAD_REQUEST', `The workflow was not stored: ${list}.`, { errors });
}

/** How many existing names an error message lists. */
const namesShown = 10;

async function describeMissing(db: Queryable, workspaceId: string, name: string): Promise<string> {
  const names = await listScriptNames(db, { workspaceId, type: 'JOB' }, namesShown + 1);
  const shown = names.slice(0, namesShown).map((existing) => `\`${existing}\``);
  const there =
    names.length === 0
      ? 'the workspace has none yet'
      : `the workspace has ${shown.join(', ')}${names.length > namesShown ? ' and more' : ''}`;
  return `names job function \`${name}\`, which does not exist (${there}); upload it first`;
}

export async function getWorkflow(db: Queryable, workspaceId: string, name: string): Promise<Workflow | null> {
  const { rows } = await db.query<WorkflowRow>(
    `select ${columns} from workflows where workspace_id = $1 and name = $2`,
    [workspaceId, name],
  );
  return rows[0] === undefined ? null : toWorkflow(rows[0]);
}

/** Newest first. */
export async function listWorkflows(
  db: Queryable,
  workspaceId: string,
  { limit, cursor }: PageRequest,
): Promise<Page<Workflow>> {
  // Microseconds since the epoch: a JavaScript Date would cut the time and lose rows between two pages.
  const { rows } = await db.query<WorkflowRow & { created_us: number }>(
    `select * from (select ${columns}, (extract(epoch from created_at) * 1000000)::bigint as created_us
                    from workflows where workspace_id = $1) w
     where $3::bigint is null or (created_us, name) < ($3, $4)
     order by created_us desc, name desc limit $2`,
    [workspaceId, limit + 1, ...decodeCursor(cursor, ['integer', 'text'])],
  );
  const { items, nextCursor } = pageOf(rows, limit, (row) => [row.created_us, row.name]);
  return { items: items.map(toWorkflow), nextCursor };
}

/**
 * False when there is no such workflow.
 * @throws JobcellError CONFLICT while it has unfinished executions (D31).
 */
export async function deleteWorkflow(pool: Pool, workspaceId: string, name: string): Promise<boolean> {
  return transaction(pool, async (db) => {
    const { rowCount } = await db.query('select from workflows where workspace_id = $1 and name = $2 for update', [
      workspaceId,
      name,
    ]);
    if (rowCount === 0) return false;
    const { rows } = await db.query<{ count: number }>(
      'select count(*) from executions where workspace_id = $1 and workflow = $2 and status = any($3)',
      [workspaceId, name, unfinishedStatuses],
    );
    const { count } = rows[0]!;
    if (count > 0) {
      throw new JobcellError(
        'CONFLICT',
        `Workflow \`${name}\` has ${count} unfinished execution${count === 1 ? '' : 's'} and was not deleted; wait until they are finished.`,
      );
    }
    await db.query('delete from workflows where workspace_id = $1 and name = $2', [workspaceId, name]);
    return true;
  });
}
