import { uuidv7 } from 'uuidv7';
import { JobcellError } from '../errors.ts';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import { type Pool, type Queryable, transaction } from './database.ts';
import { unfinishedStatuses } from './execution-reads.ts';

export interface Workspace {
  id: string;
  name: string;
  /** Rises with each upload and delete of a script (D28). */
  revision: number;
  createdAt: Date;
  updatedAt: Date;
}

const columns = 'id, name, revision, created_at as "createdAt", updated_at as "updatedAt"';

export async function putWorkspace(db: Queryable, name: string): Promise<Workspace> {
  const { rows } = await db.query<Workspace>(
    `insert into workspaces (id, name) values ($1, $2)
     on conflict (name) do update set updated_at = jobcell_now()
     returning ${columns}`,
    [uuidv7(), name],
  );
  return rows[0]!;
}

export async function getWorkspace(db: Queryable, name: string): Promise<Workspace | null> {
  const { rows } = await db.query<Workspace>(`select ${columns} from workspaces where name = $1`, [name]);
  return rows[0] ?? null;
}

/** Newest first. */
export async function listWorkspaces(db: Queryable, { limit, cursor }: PageRequest): Promise<Page<Workspace>> {
  const { rows } = await db.query<Workspace>(
    `select ${columns} from workspaces where ($2::uuid is null or id < $2) order by id desc limit $1`,
    [limit + 1, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows, limit, (row) => [row.id]);
}

/**
 * Deletes a workspace and everything in it.
 * @throws JobcellError CONFLICT while it has unfinished executions (D31).
 */
export async function deleteWorkspace(pool: Pool, workspace: Pick<Workspace, 'id' | 'name'>): Promise<void> {
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
        `Workspace \`${workspace.name}\` has ${count} unfinished execution${count === 1 ? '' : 's'} and was not deleted; wait until they are finished.`,
      );
    }
    await db.query('delete from workspaces where id = $1', [workspace.id]);
  });
}
