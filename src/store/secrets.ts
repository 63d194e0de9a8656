import { uuidv7 } from 'uuidv7';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import type { Queryable } from './database.ts';

/** What can be read of a secret over HTTP: everything but its value. */
export interface Secret {
  id: string;
  name: string;
  createdAt: Date;
  updatedAt: Date;
}

/** Where a secret stands. */
export interface SecretPlace {
  workspaceId: string;
  vault: string;
  name: string;
}

/** A value as it is stored. */
export interface SealedValue {
  keyId: string;
  sealed: Buffer;
}

const columns = 'id, name, created_at as "createdAt", updated_at as "updatedAt"';

/** Creates or replaces; null when there is no such vault. */
export async function putSecret(
  db: Queryable,
  { workspaceId, vault, name }: SecretPlace,
  { keyId, sealed }: SealedValue,
): Promise<Secret | null> {
  const { rows } = await db.query<Secret>(
    `insert into secrets (workspace_id, vault, id, name, key_id, sealed)
     select v.workspace_id, v.name, $3, $4, $5, $6 from vaults v where v.workspace_id = $1 and v.name = $2 for key share
     on conflict (workspace_id, vault, name) do update set key_id = $5, sealed = $6, updated_at = jobcell_now()
     returning ${columns}`,
    [workspaceId, vault, uuidv7(), name, keyId, sealed],
  );
  return rows[0] ?? null;
}

export async function getSecret(db: Queryable, { workspaceId, vault, name }: SecretPlace): Promise<Secret | null> {
  const { rows } = await db.query<Secret>(
    `select ${columns} from secrets where workspace_id = $1 and vault = $2 and name = $3`,
    [workspaceId, vault, name],
  );
  return rows[0] ?? null;
}

/** Newest first. */
export async function listSecrets(
  db: Queryable,
  { workspaceId, vault }: Omit<SecretPlace, 'name'>,
  { limit, cursor }: PageRequest,
): Promise<Page<Secret>> {
  const { rows } = await db.query<Secret>(
    `select ${columns} from secrets
     where workspace_id = $1 and vault = $2 and ($4::uuid is null or id < $4) order by id desc limit $3`,
    [workspaceId, vault, limit + 1, ...decodeCursor(cursor, ['uuid'])],
  );
  return pageOf(rows, limit, (row) => [row.id]);
}

/** False when there is no such secret. */
export async function deleteSecret(db: Queryable, { workspaceId, vault, name }: SecretPlace): Promise<boolean> {
  const { rowCount } = await db.query('delete from secrets where workspace_id = $1 and vault = $2 and name = $3', [
    workspaceId,
    vault,
    name,
  ]);
  return rowCount === 1;
}

/** The stored values of those of the names that there are; null when there is no such vault. */
export async function readSecrets(
  db: Queryable,
  { workspaceId, vault }: Omit<SecretPlace, 'name'>,
  names: string[],
): Promise<(SealedValue & { name: string })[] | null> {
  // A vault without any of them is one row of nulls.
  const { rows } = await db.query<SealedValue & { name: string | null }>({
    name: 'read-secrets',
    text: `select s.name, s.key_id as "keyId", s.sealed
           from vaults v left join secrets s on s.workspace_id = v.workspace_id and s.vault = v.name and s.name = any($3)
           where v.workspace_id = $1 and v.name = $2`,
    values: [workspaceId, vault, names],
  });
  if (rows.length === 0) return null;
  return rows.filter((row): row is SealedValue & { name: string } => row.name !== null);
}

/** Up to `limit` secrets that are encrypted with one of these keys, in the order of their places, from `after` on. */
export async function secretsOfKeys(
  db: Queryable,
  keyIds: string[],
  limit: number,
  after: SecretPlace | undefined,
): Promise<(SecretPlace & SealedValue)[]> {
  const { rows } = await db.query<SecretPlace & SealedValue>(
    `select workspace_id as "workspaceId", vault, name, key_id as "keyId", sealed
     from secrets
     where key_id = any($1) and ($3::uuid is null or (workspace_id, vault, name) > ($3::uuid, $4::text, $5::text))
     order by workspace_id, vault, name limit $2`,
    [keyIds, limit, after?.workspaceId ?? null, after?.vault ?? null, after?.name ?? null],
  );
  return rows;
}

/** Stores a value that was encrypted again, unless the secret was written meanwhile. It counts as no change of the secret. */
export async function replaceSealed(
  db: Queryable,
  { workspaceId, vault, name, sealed: before }: SecretPlace & SealedValue,
  { keyId, sealed }: SealedValue,
): Promise<void> {
  await db.query(
    `update secrets set key_id = $4, sealed = $5
     where workspace_id = $1 and vault = $2 and name = $3 and sealed = $6`,
    [workspaceId, vault, name, keyId, sealed, before],
  );
}

/** How many secrets are encrypted with none of these keys. */
export async function countSecretsOfOtherKeys(db: Queryable, keyIds: string[]): Promise<number> {
  const { rows } = await db.query<{ count: number }>('select count(*) from secrets where key_id <> all($1)', [keyIds]);
  return rows[0]!.count;
}
