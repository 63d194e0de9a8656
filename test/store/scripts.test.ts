import { createHash } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPool, type Pool } from '../../src/store/database.ts';
import { migrate } from '../../src/store/migrate.ts';
import { removeUnreachableVersions } from '../../src/store/retention.ts';
import {
  deleteScript,
  getScript,
  listScriptNames,
  listScripts,
  loadScript,
  putScript,
  resolveVersion,
} from '../../src/store/scripts.ts';
import { getWorkspace, putWorkspace } from '../../src/store/workspaces.ts';
import { createDatabase } from '../support/database.ts';

let pool: Pool;
let workspaceId: string;
const type = 'JOB' as const;

beforeAll(async () => {
  pool = openPool(await createDatabase(), { max: 4, onError: () => {} });
  await migrate(pool, pino({ level: 'silent' }));
  workspaceId = (await putWorkspace(pool, 'scripts')).id;
});
afterAll(() => pool.end());

const put = (name: string, text: string) =>
  putScript(pool, {
    workspaceId,
    type,
    name,
    source: Buffer.from(text),
    sourceMap: null,
    contentHash: createHash('sha256').update(text).digest('hex'),
    format: 'module',
  });
const revision = async () => (await getWorkspace(pool, 'scripts'))!.revision;
const versionAt = async (name: string, at: number) =>
  (await resolveVersion(pool, { workspaceId, type, name, revision: at }))?.version ?? null;

test('a content has one version, and only a change raises the revision (D28)', async () => {
  const start = await revision();
  expect((await put('one', 'a')).version).toBe(1);
  expect(await revision()).toBe(start + 1);
  expect((await put('one', 'a')).version).toBe(1);
  expect(await revision()).toBe(start + 1);
  expect((await put('one', 'b')).version).toBe(2);
  // Back to an old content: its version again, but a change of what the name stands for.
  expect((await put('one', 'a')).version).toBe(1);
  expect(await revision()).toBe(start + 3);
  expect(await versionAt('one', start + 2)).toBe(2);
  expect(await versionAt('one', start + 3)).toBe(1);
  expect((await put('one', 'c')).version).toBe(3);
});

test('a name resolves at a revision; one unknown or deleted then, to the newest (D28)', async () => {
  const before = await revision();
  await put('pinned', 'a');
  const first = await revision();
  await put('pinned', 'b');
  expect(await versionAt('pinned', before)).toBe(2);
  expect(await versionAt('pinned', first)).toBe(1);
  expect(await deleteScript(pool, { workspaceId, type, name: 'pinned' })).toBe(true);
  const deleted = await revision();
  expect(await versionAt('pinned', deleted)).toBeNull();
  expect(await versionAt('pinned', before)).toBeNull();
  // Executions from before keep their versions.
  expect(await versionAt('pinned', first)).toBe(1);
  await put('pinned', 'c');
  expect(await versionAt('pinned', deleted)).toBe(3);
  expect(await versionAt('never', deleted)).toBeNull();
});

test('a deleted name is hidden, and its versions stay readable', async () => {
  await put('gone', 'a');
  const script = { workspaceId, type, name: 'gone' };
  expect(await deleteScript(pool, script)).toBe(true);
  expect(await deleteScript(pool, script)).toBe(false);
  expect(await getScript(pool, script)).toBeNull();
  expect((await getScript(pool, script, 1))?.version).toBe(1);
  expect(await listScriptNames(pool, { workspaceId, type }, 200)).not.toContain('gone');
  const { items } = await listScripts(pool, { workspaceId, type }, { limit: 200 });
  expect(items.map((item) => item.name)).not.toContain('gone');
});

test('a script with any character comes back as it was', async () => {
  const text = '\uFEFF"\0 \u2028 😀"';
  const { version } = await put('any', text);
  const loaded = await loadScript(pool, workspaceId, type, 'any', version);
  expect(loaded).toEqual({
    source: text,
    sourceMap: null,
    hash: createHash('sha256').update(text).digest('hex'),
    format: 'module',
  });
  expect(await loadScript(pool, workspaceId, type, 'any', 99)).toBeNull();
});

test('uploads at the same time get versions and revisions of their own', async () => {
  const start = await revision();
  const infos = await Promise.all(Array.from({ length: 8 }, (_, i) => put('race', `content ${i}`)));
  expect(infos.map((info) => info.version).sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(await revision()).toBe(start + 8);
  const same = await Promise.all(Array.from({ length: 4 }, () => put('race-same', 'content')));
  expect(same.map((info) => info.version)).toEqual([1, 1, 1, 1]);
  expect(await revision()).toBe(start + 9);
});

test('the list pages without losing or repeating a name', async () => {
  const all: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await listScripts(pool, { workspaceId, type }, { limit: 1, cursor });
    all.push(...page.items.map((item) => item.name));
    if (page.nextCursor === null) break;
    cursor = page.nextCursor;
  }
  const { items } = await listScripts(pool, { workspaceId, type }, { limit: 200 });
  expect(all).toEqual(items.map((item) => item.name));
  expect(new Set(all).size).toBe(all.length);
});

test('D32: a version goes when no kept execution can reach it, nor one that a resume may be undone to (D8)', async () => {
  const aged = () => pool.query(`update script_versions set created_at = now() - interval '2 hours'`);
  const versions = async () =>
    (
      await pool.query(
        `select version from script_versions where workspace_id = $1 and name = 'aging' order by version`,
        [workspaceId],
      )
    ).rows.map(({ version }) => version);
  const execution = '00000000-0000-7000-8000-000000000001';
  await put('aging', 'a');
  const first = await revision();
  for (const text of ['b', 'c', 'd']) await put('aging', text);
  await pool.query(
    `insert into executions (workspace_id, id, workflow, main_job_function, job_functions, status, args, revision, seed)
     values ($1, $2, 'flow', 'aging', '{"aging": 3}', 'SUCCESS', '{}', $3, '')`,
    [workspaceId, execution, first],
  );
  // None is old enough yet.
  expect(await removeUnreachableVersions(pool)).toBe(0);
  await aged();
  // 1 by the revision, 3 by name, 4 is current.
  await removeUnreachableVersions(pool);
  expect(await versions()).toEqual([1, 3, 4]);
  // Resumed with the newest ones; what it was before counts until the attempt has ended.
  await pool.query(
    `insert into resumes (workspace_id, execution_id, revision, job_functions, kept_records)
     select workspace_id, id, revision, job_functions, 0 from executions where id = $1`,
    [execution],
  );
  await pool.query(`update executions set revision = $2, job_functions = '{}' where id = $1`, [
    execution,
    await revision(),
  ]);
  await removeUnreachableVersions(pool);
  expect(await versions()).toEqual([1, 3, 4]);
  await pool.query('delete from resumes');
  await removeUnreachableVersions(pool);
  expect(await versions()).toEqual([4]);
});
