import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import type { Queryable } from './database.ts';

/** Exact: the key itself. Prefix: every key that starts with it, each with a pool of its own (D16). */
export const matchTypes = ['exact', 'prefix'] as const;
type MatchType = (typeof matchTypes)[number];

export interface PolicyDefinition {
  /** Left out: what it is already, or else the name. */
  key: string | undefined;
  matchType: MatchType;
  /** Null: the platform's own cap counts. */
  concurrencyPolicy: { maxConcurrentExecutions: number } | null;
}

export interface Policy {
  name: string;
  key: string;
  matchType: MatchType;
  concurrencyPolicy: { maxConcurrentExecutions: number } | null;
  createdAt: Date;
  updatedAt: Date;
}

interface PolicyRow extends Omit<Policy, 'concurrencyPolicy'> {
  declared: number | null;
}

const columns = `name, key, match_type as "matchType", max_concurrent_executions as declared, created_at as "createdAt",
  updated_at as "updatedAt"`;

const toPolicy = ({ declared, ...row }: PolicyRow): Policy => ({
  ...row,
  concurrencyPolicy: declared === null ? null : { maxConcurrentExecutions: declared },
});

/**
 * Declares a policy, or changes it: a lower cap ends nothing that runs, a higher one lets waiters go at once.
 * @throws JobcellError CONFLICT when it is declared with another key.
 */
export async function putPolicy(
  db: Queryable,
  workspace: { id: string; name: string },
  name: string,
  { key, matchType, concurrencyPolicy }: PolicyDefinition,
): Promise<Policy> {
  const declared = concurrencyPolicy?.maxConcurrentExecutions ?? null;
  const { rows } = await db.query<PolicyRow>(`select ${columns} from put_execution_policy($1, $2, $3, $4, $5, $6)`, [
    workspace.id,
    name,
    key ?? null,
    matchType,
    declared,
    declared ?? limits.keyDispatches,
  ]);
  const [row] = rows;
  if (row !== undefined) return toPolicy(row);
  const existing = await getPolicy(db, workspace.id, name);
  throw new JobcellError(
    'CONFLICT',
    `Execution policy \`${name}\` has the key \`${existing?.key}\`, and a key cannot be changed. Leave \`key\` out, or declare a policy of another name.`,
  );
}

export async function getPolicy(db: Queryable, workspaceId: string, name: string): Promise<Policy | null> {
  const { rows } = await db.query<PolicyRow>(
    `select ${columns} from execution_policies where workspace_id = $1 and name = $2`,
    [workspaceId, name],
  );
  return rows[0] === undefined ? null : toPolicy(rows[0]);
}

/** Newest first. */
export async function listPolicies(
  db: Queryable,
  workspaceId: string,
  { limit, cursor }: PageRequest,
): Promise<Page<Policy>> {
  // Microseconds since the epoch: a JavaScript Date would cut the time and lose rows between two pages.
  const { rows } = await db.query<PolicyRow & { created: number }>(
    `select * from (select ${columns}, (extract(epoch from created_at) * 1000000)::bigint as created
                    from execution_policies where workspace_id = $1) p
     where $3::bigint is null or (created, name) < ($3, $4)
     order by created desc, name desc limit $2`,
    [workspaceId, limit + 1, ...decodeCursor(cursor, ['integer', 'text'])],
  );
  const { items, nextCursor } = pageOf(rows, limit, (row) => [row.created, row.name]);
  return { items: items.map(({ created: _, ...row }) => toPolicy(row)), nextCursor };
}

/** How many declared keys an error message lists. */
const keysShown = 20;

/** What is declared, as an error says it: keys by name, those of prefix policies with a `*` behind (workflow.md). */
export async function declaredKeys(db: Queryable, workspaceId: string): Promise<string[]> {
  const { rows } = await db.query<{ key: string; matchType: MatchType }>(
    `select key, match_type as "matchType" from execution_policies where workspace_id = $1 order by key, match_type limit $2`,
    [workspaceId, keysShown + 1],
  );
  const shown = rows.slice(0, keysShown).map(({ key, matchType }) => `"${key}${matchType === 'prefix' ? '*' : ''}"`);
  return rows.length > keysShown ? [...shown, 'and more'] : shown;
}

/**
 * Takes a policy away. What runs under it goes on; what waits for it is tried again at once (D31).
 * @returns false when there is none of that name.
 */
export async function deletePolicy(db: Queryable, workspaceId: string, name: string): Promise<boolean> {
  const { rows } = await db.query<{ deleted: boolean }>('select delete_execution_policy($1, $2) as deleted', [
    workspaceId,
    name,
  ]);
  return rows[0]!.deleted;
}
