import { JobcellError } from '../errors.ts';
import type { BodyType, ScriptFormat } from '../sandbox/protocol.ts';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor.ts';
import { type Pool, type Queryable, transaction } from './database.ts';

/** Scripts: a content is stored once per name as a version; revisions say which version a name stood for, from when on (D28). */

export interface ScriptName {
  workspaceId: string;
  /** JOB is a job function, STANDARD a function of the Function service. */
  type: BodyType;
  name: string;
}

export interface ScriptInfo {
  name: string;
  version: number;
  contentHash: string;
  /** Bytes of the script, without its source map. */
  size: number;
  format: ScriptFormat;
  createdAt: Date;
}

/** What an upload brings. Texts are UTF-8. */
export interface ScriptContent extends ScriptName {
  contentHash: string;
  source: Buffer;
  sourceMap: Buffer | null;
  format: ScriptFormat;
}

const infoColumns = `v.name, v.version, v.content_hash as "contentHash", octet_length(v.script) as size, v.format,
  v.created_at as "createdAt"`;
const byName = 'workspace_id = $1 and type = $2 and name = $3';
const parameters = (script: ScriptName) => [script.workspaceId, script.type, script.name];

/** The stored version with exactly this content, current or not. */
export async function findContent(db: Queryable, script: ScriptName, contentHash: string): Promise<ScriptInfo | null> {
  const { rows } = await db.query<ScriptInfo>(
    `select ${infoColumns} from script_versions v where ${byName} and content_hash = $4`,
    [...parameters(script), contentHash],
  );
  return rows[0] ?? null;
}

/**
 * Makes a content the current version of its name. A content that is stored already keeps its version number, and
 * one that is current already raises no revision.
 * @throws JobcellError NOT_FOUND when the workspace was deleted meanwhile.
 */
export async function putScript(pool: Pool, script: ScriptContent): Promise<ScriptInfo> {
  return transaction(pool, async (db) => {
    await lockRevision(db, script.workspaceId);
    const stored = (await findContent(db, script, script.contentHash)) ?? (await insertVersion(db, script));
    if ((await currentVersion(db, script)) !== stored.version) await addRevision(db, script, stored.version);
    return stored;
  });
}

async function insertVersion(db: Queryable, script: ScriptContent): Promise<ScriptInfo> {
  const { rows } = await db.query<ScriptInfo>(
    `insert into script_versions as v (workspace_id, type, name, version, content_hash, format, script, source_map)
     select $1, $2, $3, coalesce(max(version), 0) + 1, $4, $5, $6, $7 from script_versions where ${byName}
     returning ${infoColumns}`,
    [...parameters(script), script.contentHash, script.format, script.source, script.sourceMap],
  );
  return rows[0]!;
}

/** Uploads and deletes of a workspace's scripts, and definitions of workflows that name them, go one after the other. */
async function lockRevision(db: Queryable, workspaceId: string): Promise<void> {
  const { rowCount } = await db.query('select from workspaces where id = $1 for no key update', [workspaceId]);
  if (rowCount === 0) throw new JobcellError('NOT_FOUND', 'The workspace was deleted while the request was handled.');
}

async function addRevision(db: Queryable, script: ScriptName, version: number | null): Promise<void> {
  await db.query(
    `with raised as (update workspaces set revision = revision + 1 where id = $1 returning revision)
     insert into script_revisions (workspace_id, type, name, revision, version)
     select $1, $2, $3, revision, $4 from raised`,
    [...parameters(script), version],
  );
}

/** The version a name stands for now; null when it was never uploaded or is deleted. */
export async function currentVersion(db: Queryable, script: ScriptName): Promise<number | null> {
  const { rows } = await db.query<{ version: number | null }>(
    `select version from script_revisions where ${byName} order by revision desc limit 1`,
    parameters(script),
  );
  return rows[0]?.version ?? null;
}

/**
 * Hides a name from all later revisions; its versions stay for the executions that use them (D28). False when there is
 * no such script.
 * @throws JobcellError CONFLICT while a workflow names it as its main job function.
 */
export async function deleteScript(pool: Pool, script: ScriptName): Promise<boolean> {
  return transaction(pool, async (db) => {
    await lockRevision(db, script.workspaceId);
    if ((await currentVersion(db, script)) === null) return false;
    const { rows } = await db.query<{ name: string }>(
      `select name from workflows where workspace_id = $1 and main_job_function = $2 and $3 = 'JOB' order by name`,
      [script.workspaceId, script.name, script.type],
    );
    if (rows.length > 0) {
      const names = rows.map((row) => `\`${row.name}\``).join(', ');
      throw new JobcellError(
        'CONFLICT',
        `Job function \`${script.name}\` is the main job function of workflow ${names} and was not deleted; delete the workflow, or give it another main job function, first.`,
      );
    }
    await addRevision(db, script, null);
    return true;
  });
}

/** A script's current version, or the given one, which may also be an old one or one of a name that is deleted. */
export async function getScript(db: Queryable, script: ScriptName, version?: number): Promise<ScriptInfo | null> {
  const wanted = version ?? (await currentVersion(db, script));
  const { rows } = await db.query<ScriptInfo>(
    `select ${infoColumns} from script_versions v where ${byName} and version = $4`,
    [...parameters(script), wanted],
  );
  return rows[0] ?? null;
}

/** Current versions, the one that became current last first. */
export async function listScripts(
  db: Queryable,
  { workspaceId, type }: Omit<ScriptName, 'name'>,
  { limit, cursor }: PageRequest,
): Promise<Page<ScriptInfo>> {
  const { rows } = await db.query<ScriptInfo & { revision: number }>(
    `select ${infoColumns}, r.revision
     from (select distinct on (name) name, revision, version from script_revisions
           where workspace_id = $1 and type = $2 order by name, revision desc) r
     join script_versions v on v.workspace_id = $1 and v.type = $2 and v.name = r.name and v.version = r.version
     where $4::bigint is null or r.revision < $4
     order by r.revision desc limit $3`,
    [workspaceId, type, limit + 1, ...decodeCursor(cursor, ['integer'])],
  );
  return pageOf(rows, limit, (row) => [row.revision]);
}

/** Names that have a current version, in alphabetical order. */
export async function listScriptNames(
  db: Queryable,
  { workspaceId, type }: Omit<ScriptName, 'name'>,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select name from (select distinct on (name) name, version from script_revisions
                       where workspace_id = $1 and type = $2 order by name, revision desc) r
     where version is not null order by name limit $3`,
    [workspaceId, type, limit],
  );
  return rows.map((row) => row.name);
}

/** A version as a run needs it. */
export interface ScriptVersion {
  version: number;
  hash: string;
  format: ScriptFormat;
  /** Whether the name stood for it at the revision asked for; otherwise a later upload may change the answer. */
  atRevision: boolean;
}

/**
 * The version a name stands for at a revision; a name unknown then (also: deleted then) resolves to the newest (D28).
 * Null when there is none.
 */
export async function resolveVersion(
  db: Queryable,
  script: ScriptName & { revision: number },
): Promise<ScriptVersion | null> {
  const { rows } = await db.query<ScriptVersion>({
    name: 'resolve-version',
    text: `
      select v.version, v.content_hash as hash, v.format, pinned.version is not null as "atRevision"
      from (select (select version from script_revisions where ${byName} and revision <= $4
                    order by revision desc limit 1) as version) pinned,
           script_versions v
      where ${byName} and v.version = coalesce(
        pinned.version, (select version from script_revisions where ${byName} order by revision desc limit 1))`,
    values: [...parameters(script), script.revision],
  });
  return rows[0] ?? null;
}

/** A version by its number, without its text. Null when there is no such version. */
export async function findVersion(db: Queryable, script: ScriptName, version: number): Promise<ScriptVersion | null> {
  const { rows } = await db.query<ScriptVersion>({
    name: 'find-version',
    text: `select version, content_hash as hash, format, true as "atRevision" from script_versions
           where ${byName} and version = $4`,
    values: [...parameters(script), version],
  });
  return rows[0] ?? null;
}

/** A version's text. Null when there is no such version. */
export async function loadScript(
  db: Queryable,
  workspaceId: string,
  type: BodyType,
  name: string,
  version: number,
): Promise<{ source: string; sourceMap: string | null; hash: string; format: ScriptFormat } | null> {
  const { rows } = await db.query<{ script: Buffer; sourceMap: Buffer | null; hash: string; format: ScriptFormat }>(
    `select script, source_map as "sourceMap", content_hash as hash, format from script_versions
     where ${byName} and version = $4`,
    [workspaceId, type, name, version],
  );
  const row = rows[0];
  if (row === undefined) return null;
  const { script, sourceMap, hash, format } = row;
  return { source: script.toString('utf8'), sourceMap: sourceMap?.toString('utf8') ?? null, hash, format };
}
