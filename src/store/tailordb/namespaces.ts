import { uuidv7 } from 'uuidv7';
import { JobcellError } from '../../errors.ts';
import { limits } from '../../limits.ts';
import { decodeCursor, type Page, type PageRequest, pageOf } from '../cursor.ts';
import { type Pool, type Queryable, transaction } from '../database.ts';
import { databaseName, type Namespace, namespaceNames, rolePrefix } from './names.ts';

interface NamespaceRow {
  id: string;
  name: string;
  number: number;
  createdAt: Date;
  databaseId: string;
}

const select = `select n.id, n.name, n.number, n.created_at as "createdAt", d.id as "databaseId"
  from tailordb_namespaces n join tailordb_databases d on d.workspace_id = n.workspace_id`;

const toNamespace = ({ id, name, number, createdAt, databaseId }: NamespaceRow): Namespace => ({
  id,
  name,
  createdAt,
  ...namespaceNames(databaseId, number),
});

/** Stores a namespace, or finds the one there is. @throws JobcellError CONFLICT when the workspace has as many as it may. */
export async function putNamespace(pool: Pool, workspaceId: string, name: string): Promise<Namespace> {
  return transaction(pool, async (db) => {
    await db.query(
      `insert into tailordb_databases (workspace_id, id) select id, $2 from workspaces where id = $1
       on conflict (workspace_id) do nothing`,
      [workspaceId, uuidv7()],
    );
    // One after the other, so that the count and the next number hold.
    await db.query('select from tailordb_databases where workspace_id = $1 for update', [workspaceId]);
    const known = await getNamespace(db, workspaceId, name);
    if (known !== null) return known;
    const { rows } = await db.query<{ count: number; next: number }>(
      'select count(*)::int as count, coalesce(max(number), 0) + 1 as next from tailordb_namespaces where workspace_id = $1',
      [workspaceId],
    );
    const { count, next } = rows[0]!;
    if (count >= limits.tailordbNamespaces) {
      throw new JobcellError(
        'CONFLICT',
        `The workspace has ${count} TailorDB namespaces, as many as it may; delete one of them first.`,
      );
    }
    await db.query('insert into tailordb_namespaces (workspace_id, id, name, number) values ($1, $2, $3, $4)', [
      workspaceId,
      uuidv7(),
      name,
      next,
    ]);
    return (await getNamespace(db, workspaceId, name))!;
  });
}

export async function getNamespace(db: Queryable, workspaceId: string, name: string): Promise<Namespace | null> {
  const { rows } = await db.query<NamespaceRow>({
    name: 'get-namespace',
    text: `${select} where n.workspace_id = $1 and n.name = $2`,
    values: [workspaceId, name],
  });
  return rows[0] === undefined ? null : toNamespace(rows[0]);
}

/** Newest first. */
export async function listNamespaces(
  db: Queryable,
  workspaceId: string,
  { limit, cursor }: PageRequest,
): Promise<Page<Namespace>> {
  const { rows } = await db.query<NamespaceRow>(
    `${select} where n.workspace_id = $1 and ($3::uuid is null or n.id < $3) order by n.id desc limit $2`,
    [workspaceId, limit + 1, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows.map(toNamespace), limit, (row) => [row.id]);
}

export async function forgetNamespace(db: Queryable, workspaceId: string, name: string): Promise<void> {
  await db.query('delete from tailordb_namespaces where workspace_id = $1 and name = $2', [workspaceId, name]);
}

/** A database whose workspace is gone. */
export interface OrphanedDatabase {
  workspaceId: string;
  database: string;
  rolePrefix: string;
}

export async function orphanedDatabases(db: Queryable): Promise<OrphanedDatabase[]> {
  const { rows } = await db.query<{ workspaceId: string; id: string }>(
    `select d.workspace_id as "workspaceId", d.id from tailordb_databases d
     where not exists (select 1 from workspaces w where w.id = d.workspace_id)`,
  );
  return rows.map(({ workspaceId, id }) => ({
    workspaceId,
    database: databaseName(id),
    rolePrefix: rolePrefix(id),
  }));
}

export async function forgetDatabase(db: Queryable, workspaceId: string): Promise<void> {
  await db.query('delete from tailordb_databases where workspace_id = $1', [workspaceId]);
}
