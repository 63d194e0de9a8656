import { uuidv7 } from 'uuidv7';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import type { Queryable } from './database.ts';

/** A name that secrets stand under. */
export interface Vault {
  id: string;
  name: string;
  createdAt: Date;
}

const columns = 'id, name, created_at as "createdAt"';

/** Creates it, or answers the one there is. */
export async function putVault(db: Queryable, workspaceId: string, name: string): Promise<Vault> {
  const { rows } = await db.query<Vault>(
    `insert into vaults (workspace_id, id, name) values ($1, $2, $3)
     -- changes nothing, but answers the row
     on conflict (workspace_id, name) do update set name = $3
     returning ${columns}`,
    [workspaceId, uuidv7(), name],
  );
  return rows[0]!;
}

export async function getVault(db: Queryable, workspaceId: string, name: string): Promise<Vault | null> {
  const { rows } = await db.query<Vault>(`select ${columns} from vaults where workspace_id = $1 and name = $2`, [
    workspaceId,
    name,
  ]);
  return rows[0] ?? null;
}

/** Newest first. */
export async function listVaults(
  db: Queryable,
  workspaceId: string,
  { limit, cursor }: PageRequest,
): Promise<Page<Vault>> {
  const { rows } = await db.query<Vault>(
    `select ${columns} from vaults where workspace_id = $1 and ($3::uuid is null or id < $3) order by id desc limit $2`,
    [workspaceId, limit + 1, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows, limit, (row) => [row.id]);
}

/** With every secret in it. False when there is no such vault. */
export async function deleteVault(db: Queryable, workspaceId: string, name: string): Promise<boolean> {
  const { rowCount } = await db.query('delete from vaults where workspace_id = $1 and name = $2', [workspaceId, name]);
  return rowCount === 1;
}
