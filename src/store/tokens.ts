import { uuidv7 } from 'uuidv7';
import { decodeCursor, isUuid, type Page, type PageRequest, pageOf } from './cursor.ts';
import type { Queryable } from './database.ts';
import { type Workspace, workspaceColumns } from './workspaces.ts';

/** A workspace token, without its secret: only the SHA-256 of that is stored. */
export interface Token {
  id: string;
  name: string;
  createdAt: Date;
}

const columns = 'id, name, created_at as "createdAt"';

export async function createToken(db: Queryable, workspaceId: string, name: string, hash: Buffer): Promise<Token> {
  const { rows } = await db.query<Token>(
    `insert into tokens (workspace_id, id, name, token_hash) values ($1, $2, $3, $4) returning ${columns}`,
    [workspaceId, uuidv7(), name, hash],
  );
  return rows[0]!;
}

/** Newest first. */
export async function listTokens(
  db: Queryable,
  workspaceId: string,
  { limit, cursor }: PageRequest,
): Promise<Page<Token>> {
  const { rows } = await db.query<Token>(
    `select ${columns} from tokens where workspace_id = $1 and ($3::uuid is null or id < $3)
     order by id desc limit $2`,
    [workspaceId, limit + 1, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows, limit, (row) => [row.id]);
}

/** False when there is no such token. */
export async function deleteToken(db: Queryable, workspaceId: string, id: string): Promise<boolean> {
  if (!isUuid(id)) return false;
  const { rowCount } = await db.query('delete from tokens where workspace_id = $1 and id = $2', [workspaceId, id]);
  return rowCount === 1;
}

/** The workspace that a token opens. */
export async function findWorkspaceOfToken(db: Queryable, hash: Buffer): Promise<Workspace | null> {
  const { rows } = await db.query<Workspace>(
    `select ${workspaceColumns}
     from tokens t join workspaces w on w.id = t.workspace_id where t.token_hash = $1`,
    [hash],
  );
  return rows[0] ?? null;
}
