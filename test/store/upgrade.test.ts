import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { expect, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import { Client, Workspace } from '../support/client.ts';
import { createDatabase } from '../support/database.ts';
import { startServer } from '../support/server.ts';

/** The migrations of the first release, and what it recorded of them: they never change again. */
const firstRelease = {
  name: '0001_init',
  checksum: 'b698de89bc14e0ae124409f52843222ced7f5ce60ae05a7deebe4729a7a1650f',
};

/** A database as the first release left it: its tables, a finished execution, and one that a crash cut off. */
async function databaseOfFirstRelease() {
  const databaseUrl = await createDatabase();
  const client = new pg.Client({ connectionString: databaseUrl, options: '-c search_path=jobcell' });
  await client.connect();
  const sql = readFileSync(join(packageRoot, 'src', 'store', 'migrations', `${firstRelease.name}.sql`), 'utf8');
  await client.query('create schema jobcell');
  await client.query(
    'create table migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())',
  );
  await client.query('insert into migrations (name, checksum) values ($1, $2)', [
    firstRelease.name,
    firstRelease.checksum,
  ]);
  await client.query(sql);
  const ids = { workspace: uuid(1), done: uuid(2), cut: uuid(3), record: uuid(4) };
  const script = Buffer.from(`export function main() {
    const a = tailor.workflow.execJobFunction('step', { n: 1 });
    return [a, tailor.workflow.execJobFunction('step', { n: 2 })];
  }`);
  await client.query(`insert into workspaces (id, name, revision) values ($1, 'old-space', 2)`, [ids.workspace]);
  await client.query(
    `insert into script_versions (workspace_id, type, name, version, content_hash, format, script)
     values ($1, 'JOB', 'main', 1, 'hash-main', 'module', $2), ($1, 'JOB', 'step', 1, 'hash-step', 'module', $3)`,
    [ids.workspace, script, Buffer.from('export const main = ({ n }) => n * 10;')],
  );
  await client.query(
    `insert into script_revisions (workspace_id, type, name, revision, version) values ($1, 'JOB', 'main', 1, 1), ($1, 'JOB', 'step', 2, 1)`,
    [ids.workspace],
  );
  await client.query(`insert into workflows (workspace_id, name, main_job_function) values ($1, 'old-flow', 'main')`, [
    ids.workspace,
  ]);
  await client.query(
    `insert into executions (workspace_id, id, workflow, main_job_function, status, args, result, revision, seed, fence, finished_at)
     values ($1, $2, 'old-flow', 'main', 'SUCCESS', '{}', '[10,20]', 2, $4, 1, now()),
            ($1, $3, 'old-flow', 'main', 'PENDING_RESUME', '{}', null, 2, $4, 1, null)`,
    [ids.workspace, ids.done, ids.cut, randomBytes(32)],
  );
  await client.query(
    `insert into journal (workspace_id, execution_id, path, parent_path, position, id, kind, name, args, status, result, runs, started_at, finished_at)
     values ($1, $2, 'main', '', 0, $3, 'job', 'main', '{}', 'SUSPEND', null, 1, now(), null),
            ($1, $2, 'main/0:step', 'main', 0, $4, 'job', 'step', '{"n":1}', 'SUCCESS', '10', 1, now(), now())`,
    [ids.workspace, ids.cut, ids.record, uuid(5)],
  );
  await client.end();
  return { databaseUrl, ids };
}

const uuid = (n: number) => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;

test('a database of the first release is taken over: what it holds is there, and what was cut off goes on', async () => {
  const { databaseUrl, ids } = await databaseOfFirstRelease();
  const server = await startServer({ databaseUrl });
  const workspace = new Workspace(new Client(server), 'old-space');
  expect(await workspace.getExecution(ids.done)).toMatchObject({ status: 'SUCCESS', result: [10, 20] });
  const ended = await workspace.finished(ids.cut);
  expect(ended).toMatchObject({ status: 'SUCCESS', result: [10, 20] });
  expect(ended.jobExecutions.map((step) => [step.path, step.runs])).toEqual([
    ['main', 2],
    ['main/0:step', 1],
    ['main/1:step', 1],
  ]);
});
