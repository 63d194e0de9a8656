import { uuidv7 } from 'uuidv7';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import { type Pool, type Queryable, transaction } from './database.ts';
import { unfinishedStatuses } from './execution-reads.ts';
import { startDeletingWorkspace } from './retention.ts';

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
 * Deletes a workspace and everything in it. With `force` its unfinished executions are canceled first, and its rows go
 * in batches later (D31).
 * @returns whether it is gone already.
 * @throws JobcellError CONFLICT while it has unfinished executions, without `force`.
 */
export async function deleteWorkspace(
  pool: Pool,
  workspace: Pick<Workspace, 'id' | 'name'>,
  force: boolean,
): Promise<boolean> {
  if (force) {
    await startDeletingWorkspace(pool, workspace.id);
    return false;
  }
  return transaction(pool, async (db) => {
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
    await db.query('delete from workspaces where id = $1', [workspace.id]);
    return true;
  });
}
