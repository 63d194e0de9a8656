import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { afterEach, expect, inject, test } from 'vitest';
import { startEmbeddedPostgres } from '../../src/store/embedded.ts';
import { Client } from '../support/client.ts';
import { endWithThisProcess } from '../support/reaper.ts';
import { startServer } from '../support/server.ts';

const logger = pino({ level: 'silent' });
const children = new Set<ChildProcess>();
const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const freshFolder = () => mkdtempSync(join(inject('runFolder'), 'embedded-'));

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query(sql);
  await client.end();
  return rows;
}

async function start(dataDir: string): Promise<{ url: string; stop(): Promise<void> }> {
  const database = await startEmbeddedPostgres(dataDir, logger, { durable: false });
  cleanUps.push(() => database.stop());
  return database;
}

/** Starts the database in a process of its own, which holds it until it is ended. */
async function startElsewhere(dataDir: string, ids: { uid?: number; gid?: number } = {}) {
  const holder = join(import.meta.dirname, 'embedded-holder.ts');
  const child = spawn(process.execPath, [holder, dataDir], { ...ids, cwd: '/', stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  endWithThisProcess(child);
  const end = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  void end.then(() => children.delete(child));
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').once('data', resolve);
    child.once('exit', (code) => reject(new Error(`the holder ended with exit code ${code}`)));
  });
  return { child, end, url: line.trim() };
}

const socketFolder = (url: string) => new URL(url).searchParams.get('host')!;

/** Waits until the database behind `url` has ended and cleaned up its socket folder. */
async function gone(url: string): Promise<void> {
  while (existsSync(socketFolder(url))) await sleep(20);
}

test('a database is UTF-8, compares by code point, listens on no network address and is found again', async () => {
  const dataDir = join(freshFolder(), 'not', 'there', 'yet');
  const first = await startEmbeddedPostgres(dataDir, logger);
  const [settings] = await query(
    first.url,
    `select current_setting('server_encoding') encoding, current_setting('listen_addresses') addresses,
            current_setting('fsync') fsync, current_setting('synchronous_commit') commit, 'B' < 'a' as by_code_point,
            upper('é') as upper`,
  );
  expect(settings).toEqual({
    encoding: 'UTF8',
    addresses: '',
    fsync: 'on',
    commit: 'on',
    by_code_point: true,
    upper: 'É',
  });
  await query(first.url, 'create table kept as select 42 as answer');
  await first.stop();
  await first.stop();
  expect(existsSync(socketFolder(first.url))).toBe(false);

  const second = await start(dataDir);
  expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }]);
});

test('a second server on the same data folder is refused and told of DATABASE_URL', async () => {
  const dataDir = freshFolder();
  await startElsewhere(dataDir);
  await expect(startEmbeddedPostgres(dataDir, logger)).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringMatching(/Another jobcell server runs on .* set DATABASE_URL/),
  });
});

test('the database ends with its server when that is killed, and the next start recovers what was committed', async () => {
  const dataDir = freshFolder();
  const { child, end, url } = await startElsewhere(dataDir);
  await query(url, 'create table kept as select 42 as answer');
  child.kill('SIGKILL');
  await end;
  // At once: the killed server's database is still about to end.
  const next = await start(dataDir);
  expect(await query(next.url, 'select answer from kept')).toEqual([{ answer: 42 }]);
  await gone(url);
});

const postmaster = (dataDir: string) =>
  Number.parseInt(readFileSync(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8'), 10);

test('a database that is killed under a running server is started again, and the runs go on', async () => {
  const dataDir = freshFolder();
  const server = await startServer({ env: { DATABASE_URL: undefined, JOBCELL_DATA_DIR: dataDir } });
  const workspace = await new Client(server).createWorkspace();
  await workspace.uploadJobFunctions({
    'main-job': `export const main = () => [1, 2, 3].map((n) => tailor.workflow.execJobFunction('nap', { n }));`,
    nap: 'export const main = ({ n }) => new Promise((resolve) => setTimeout(resolve, 700, n));',
  });
  await workspace.putWorkflow('naps', 'main-job');
  const id = await workspace.start('naps');
  await workspace.until(id, (execution) => execution.stack.at(-1) === 'nap');
  process.kill(postmaster(dataDir), 'SIGKILL');
  await expect.poll(() => server.logs(), { timeout: 30_000 }).toContain('the embedded PostgreSQL runs again');
  // Broken connections are replaced one by one.
  await expect.poll(() => workspace.getExecution(id).catch(() => null), { timeout: 30_000 }).not.toBeNull();
  expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: [1, 2, 3] });

  // Where it cannot be started any more, the server says so and ends.
  rmSync(join(dataDir, 'postgres', 'global', 'pg_control'));
  const { pid } = server;
  process.kill(postmaster(dataDir), 'SIGKILL');
  await expect.poll(() => existsSync(`/proc/${pid}`), { timeout: 45_000 }).toBe(false);
  expect(await server.stop()).toBe(1);
  const told = server.logs().slice(server.logs().indexOf('\njobcell: The embedded PostgreSQL ended by itself'));
  expect(told).toContain('could not open file "/proc/self/cwd/global/pg_control"');
  expect(told).toContain(`the data is in ${dataDir}`);
});

test('a stale postmaster.pid that names a living process does not stop the start', async () => {
  const dataDir = freshFolder();
  const first = await startEmbeddedPostgres(dataDir, logger, { durable: false });
  await first.stop();
  const lines = [process.pid, '/proc/self/cwd', 1_700_000_000, 5432, '/tmp', '', '  5432001  1', 'ready'];
  writeFileSync(join(dataDir, 'postgres', 'postmaster.pid'), `${lines.join('\n')}\n`);
  const second = await start(dataDir);
  expect(await query(second.url, 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('an interrupted first start leaves nothing that stops the next', async () => {
  const dataDir = freshFolder();
  mkdirSync(join(dataDir, 'postgres.new'));
  writeFileSync(join(dataDir, 'postgres.new', 'PG_VERSION'), '18\n');
  await start(dataDir);
  expect(existsSync(join(dataDir, 'postgres.new'))).toBe(false);
});

test('the data folder of another major version is refused before anything is touched', async () => {
  const dataDir = freshFolder();
  const { stop } = await startEmbeddedPostgres(dataDir, logger, { durable: false });
  await stop();
  writeFileSync(join(dataDir, 'postgres', 'PG_VERSION'), '17\n');
  await expect(startEmbeddedPostgres(dataDir, logger)).rejects.toMatchObject({
    message: expect.stringMatching(/was made by PostgreSQL 17, this jobcell brings 18/),
  });
});

/** What follows is about other users of the machine: only root can become one, who must be able to enter the clone. */
const nobody = { uid: 65_534, gid: 65_534 };
const nobodyCanRun = process.getuid?.() === 0 && spawnSync(process.execPath, ['--version'], nobody).status === 0;
const asRoot = test.skipIf(!nobodyCanRun);

asRoot('as root it runs under another user, below folders that this user may not enter', async () => {
  const dataDir = join(freshFolder(), 'private', 'data');
  mkdirSync(dirname(dataDir), { mode: 0o700 });
  const { url } = await start(dataDir);
  const pid = readFileSync(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0];
  expect(readFileSync(`/proc/${pid}/status`, 'utf8')).not.toMatch(/^Uid:\s+0\b/m);
  expect(await query(url, 'select current_user as name')).toEqual([{ name: 'jobcell' }]);
});

asRoot('another user of the machine gets in neither by the socket folder nor past it', async () => {
  const { url } = await start(freshFolder());
  const attempt = () => {
    const script = `import pg from 'pg'; await new pg.Client(process.argv[1]).connect();`;
    const run = ['--input-type=module', '--eval', script, url];
    return spawnSync(process.execPath, run, { ...nobody, cwd: process.cwd(), encoding: 'utf8' }).stderr;
  };
  expect(attempt()).toContain('EACCES');
  chmodSync(socketFolder(url), 0o777);
  expect(attempt()).toContain('Peer authentication failed');
});

asRoot('a plain user starts it under the own name, and what root finds of theirs stays theirs', async () => {
  const dataDir = freshFolder();
  chmodSync(inject('runFolder'), 0o755);
  chownSync(dataDir, nobody.uid, nobody.gid);
  const plain = await startElsewhere(dataDir, nobody);
  plain.child.kill('SIGTERM');
  await gone(plain.url);
  await start(dataDir);
  const pid = readFileSync(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0];
  expect(readFileSync(`/proc/${pid}/status`, 'utf8')).toMatch(/^Uid:\s+65534\b/m);
  rmSync(dataDir, { recursive: true, force: true });
});
