import { uuidv7 } from 'uuidv7';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import { type Pool, type Queryable, transaction } from './database.ts';
import { unfinishedStatuses } from './execution-reads.ts';

export interface Workspace {
  id: string;
  name: string;
  /** Rises with each upload and delete of a script (D28). */
  revision: number;
  /** Days that its finished executions are kept (D32). */
  retentionDays: number;
  /** Its rows are being removed; it takes no new work (D31). */
  deleting: boolean;
  createdAt: Date;
  updatedAt: Date;
}

/** The columns of a Workspace, of the table or alias `w`. */
export const workspaceColumns = `w.id, w.name, w.revision, w.retention_days as "retentionDays", w.deleting,
  w.created_at as "createdAt", w.updated_at as "updatedAt"`;

/** Creates or updates; settings that are not given stay as they are. */
export async function putWorkspace(
  db: Queryable,
  name: string,
  settings: { retentionDays?: number | undefined } = {},
): Promise<Workspace> {
  const { rows } = await db.query<Workspace>(
    `with w as (
       insert into workspaces as w (id, name, retention_days) values ($1, $2, coalesce($3::int, $4::int))
       on conflict (name) do update set updated_at = jobcell_now(), retention_days = coalesce($3::int, w.retention_days)
         where not w.deleting
       returning *),
     p as (
       insert into pools (workspace_id, pool, cap)
       select w.id, p.pool, p.cap from w, (values ('workspace', $5::int), ('executions', $6::int)) p (pool, cap)
       on conflict do nothing)
     select ${workspaceColumns} from w`,
    [
      uuidv7(),
      name,
      settings.retentionDays ?? null,
      limits.retentionDays,
      limits.workspaceDispatches,
      limits.workspaceExecutions,
    ],
  );
  const [workspace] = rows;
  if (workspace) return workspace;
  throw new JobcellError('CONFLICT', `Workspace \`${name}\` is being deleted; create it again once it is gone.`);
}

export async function getWorkspace(db: Queryable, name: string): Promise<Workspace | null> {
  const { rows } = await db.query<Workspace>(`select ${workspaceColumns} from workspaces w where name = $1`, [name]);
  return rows[0] ?? null;
}

/** Newest first. */
export async function listWorkspaces(db: Queryable, { limit, cursor }: PageRequest): Promise<Page<Workspace>> {
  const { rows } = await db.query<Workspace>(
    `select ${workspaceColumns} from workspaces w where ($2::uuid is null or id < $2) order by id desc limit $1`,
    [limit + 1, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows, limit, (row) => [row.id]);
}

/**
 * Begins to delete a workspace and everything in it: it takes no new work from here on, and its rows go in batches
 * (`removeDeletedWorkspaces`). With `force` its unfinished executions are canceled and its functions ended first (D31);
 * without it, functions that run come to their end.
 * @throws JobcellError CONFLICT while it has unfinished executions, without `force`.
 */
export async function deleteWorkspace(
  pool: Pool,
  workspace: Pick<Workspace, 'id' | 'name'>,
  force: boolean,
): Promise<void> {
  // A statement of its own, without a lock that keeps runs out, so that it waits for no run and no run for it.
  if (force) return startDeleting(pool, workspace.id, true);
  await transaction(pool, async (db) => {
    // The row lock keeps new executions out (their foreign key asks for it) between the count and the delete.
    await db.query('select from workspaces where id = $1 for update', [workspace.id]);
    const { rows } = await db.query<{ count: number }>(
      'select count(*) from executions where workspace_id = $1 and status = any($2)',
      [workspace.id, unfinishedStatuses],
    );
    const { count } = rows[0]!;
    if (count > 0) {
      throw new JobcellError(
        'CONFLICT',
        `Workspace \`${workspace.name}\` has ${count} unfinished execution${count === 1 ? '' : 's'} and was not deleted; wait until they are finished, cancel them, or delete it with ?force=true.`,
      );
    }
    await startDeleting(db, workspace.id, false);
  });
}

/** Asked for again, force can only be added. */
async function startDeleting(db: Queryable, id: string, force: boolean): Promise<void> {
  await db.query(
    `update workspaces set deleting = true, deleting_by_force = $2, updated_at = jobcell_now()
     where id = $1 and (not deleting or $2 and not deleting_by_force)`,
    [id, force],
  );
}

/** Of some workspaces, those that are being deleted by force: nothing may run in them any more (D31). */
export async function deletedByForce(db: Queryable, ids: string[]): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>({
    name: 'deleted-by-force',
    text: 'select id from workspaces where id = any($1::uuid[]) and deleting_by_force',
    values: [ids],
  });
  return rows.map((row) => row.id);
}
