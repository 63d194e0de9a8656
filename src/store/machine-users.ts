import { uuidv7 } from 'uuidv7';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import type { Queryable } from './database.ts';

/** An identity that a start, an invocation or a script's `authInvoker` chooses by its namespace and name. */
export interface MachineUser {
  id: string;
  namespace: string;
  name: string;
  attributes: string[];
  attributeMap: Record<string, unknown>;
  createdAt: Date;
  updatedAt: Date;
}

type MachineUserRow = Omit<MachineUser, 'attributes' | 'attributeMap'> & { attributes: string; attributeMap: string };

const columns = `id, namespace, name, attributes, attribute_map as "attributeMap",
  created_at as "createdAt", updated_at as "updatedAt"`;

const toMachineUser = (row: MachineUserRow): MachineUser => ({
  ...row,
  attributes: JSON.parse(row.attributes),
  attributeMap: JSON.parse(row.attributeMap),
});

/** Creates or replaces; its id stays. */
export async function putMachineUser(
  db: Queryable,
  workspaceId: string,
  user: Pick<MachineUser, 'namespace' | 'name' | 'attributes' | 'attributeMap'>,
): Promise<MachineUser> {
  const { rows } = await db.query<MachineUserRow>(
    `insert into machine_users (workspace_id, id, namespace, name, attributes, attribute_map)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (workspace_id, namespace, name) do update
       set attributes = $5, attribute_map = $6, updated_at = jobcell_now()
     returning ${columns}`,
    [
      workspaceId,
      uuidv7(),
      user.namespace,
      user.name,
      JSON.stringify(user.attributes),
      JSON.stringify(user.attributeMap),
    ],
  );
  return toMachineUser(rows[0]!);
}

export async function getMachineUser(
  db: Queryable,
  workspaceId: string,
  namespace: string,
  name: string,
): Promise<MachineUser | null> {
  const { rows } = await db.query<MachineUserRow>(
    `select ${columns} from machine_users where workspace_id = $1 and namespace = $2 and name = $3`,
    [workspaceId, namespace, name],
  );
  return rows[0] === undefined ? null : toMachineUser(rows[0]);
}

/** Newest first; of one namespace, or of all. */
export async function listMachineUsers(
  db: Queryable,
  workspaceId: string,
  { limit, cursor, namespace }: PageRequest & { namespace?: string | undefined },
): Promise<Page<MachineUser>> {
  const { rows } = await db.query<MachineUserRow>(
    `select ${columns} from machine_users
     where workspace_id = $1 and ($3::uuid is null or id < $3) and ($4::text is null or namespace = $4)
     order by id desc limit $2`,
    [workspaceId, limit + 1, ...decodeCursor(cursor, ['uuid']), namespace ?? null],
  );
  return pageOf(rows.map(toMachineUser), limit, (row) => [row.id]);
}

/** False when there is no such machine user. */
export async function deleteMachineUser(
  db: Queryable,
  workspaceId: string,
  namespace: string,
  name: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    'delete from machine_users where workspace_id = $1 and namespace = $2 and name = $3',
    [workspaceId, namespace, name],
  );
  return rowCount === 1;
}
