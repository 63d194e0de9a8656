import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { packageVersion } from '../../src/paths.ts';
import { Client } from '../support/client.ts';
import { createDatabase } from '../support/database.ts';
import { endWithThisProcess } from '../support/reaper.ts';
import { jobcellScript, nodeBinary, startServer } from '../support/server.ts';

const freshFolder = () => mkdtempSync(join(inject('runFolder'), 'cli-'));

/** The environment of these tests without a variable of jobcell's own. */
const plainEnvironment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('JOBCELL_') && name !== 'DATABASE_URL'),
);

/** Runs the command to its end. */
async function jobcell(args: string[], env: Record<string, string> = {}) {
  const child = spawn(nodeBinary, [jobcellScript, ...args], {
    env: { ...plainEnvironment, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  endWithThisProcess(child);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout, stderr };
}

/** A start that fails: exit code 1, nothing on stdout, and on stderr one or two lines that no stack is in. */
async function failingServe(args: string[], env: Record<string, string> = {}): Promise<string> {
  const { code, stdout, stderr } = await jobcell(['serve', ...args], { JOBCELL_LOG_LEVEL: 'silent', ...env });
  expect({ code, stdout }, stderr).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^jobcell: [^\n]+\n$/);
  expect(stderr).not.toMatch(/\bat \S+:\d+|node:internal/);
  return stderr;
}

test('help and version', async () => {
  expect(await jobcell(['--version'])).toEqual({ code: 0, stdout: `${packageVersion()}\n`, stderr: '' });
  const help = await jobcell(['--help']);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  expect(help.stdout).toMatch(/jobcell demo/);
  const serveHelp = await jobcell(['serve', '--help']);
  expect(serveHelp.stdout).toMatch(/--database-url <url>.*\n?.*PostgreSQL/);
  const unknown = await jobcell(['sevre']);
  expect(unknown).toMatchObject({ code: 1, stdout: '' });
  expect(unknown.stderr).toMatch(/unknown command 'sevre'[\s\S]*--help/);
});

test('another Node that is at hand hands over to the packaged one', () => {
  const system = spawnSync('/usr/bin/env', ['node', jobcellScript, '--version'], {
    env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    encoding: 'utf8',
  });
  // Where there is no other Node, env says so.
  if (system.status === 127) return;
  expect(system).toMatchObject({ status: 0, stdout: `${packageVersion()}\n` });
});

test('what is wrong with the configuration is named, and a flag wins over its variable', async () => {
  expect(await failingServe([], { JOBCELL_PORT: 'http' })).toMatch(/JOBCELL_PORT: must be a whole number from 0/);
  expect(await failingServe(['--port', '70000'], { JOBCELL_PORT: '0' })).toMatch(/JOBCELL_PORT/);
  expect(await failingServe(['--replay', 'sometimes'])).toMatch(/JOBCELL_REPLAY/);
  expect(await failingServe([], { DATABASE_URL: 'mysql://here' })).toMatch(/DATABASE_URL: must begin with postgres/);
});

test('a database that cannot be reached, or does not exist, is named', async () => {
  const dataDir = freshFolder();
  const nobody = createServer();
  await new Promise<void>((resolve) => nobody.listen(0, '127.0.0.1', resolve));
  const { port } = nobody.address() as { port: number };
  await new Promise((resolve) => nobody.close(resolve));
  const refused = await failingServe(['--data-dir', dataDir], { DATABASE_URL: `postgres://u@127.0.0.1:${port}/x` });
  expect(refused).toContain(`ECONNREFUSED 127.0.0.1:${port}`);
  expect(refused).toContain('DATABASE_URL');

  const url = new URL(inject('postgresUrl'));
  url.pathname = '/not_there';
  expect(await failingServe(['--data-dir', dataDir], { DATABASE_URL: url.href })).toMatch(
    /no such database.*DATABASE_URL/,
  );
});

test('a port that is taken is named, and what the start had started is gone', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const { port } = taken.address() as { port: number };
  const env = { DATABASE_URL: await createDatabase(), JOBCELL_DATA_DIR: freshFolder() };
  expect(await failingServe(['--port', String(port)], env)).toMatch(new RegExp(`127.0.0.1:${port} is already in use`));
  await new Promise((resolve) => taken.close(resolve));
});

test('SIGTERM ends a server with exit code 0, and SIGKILL stops no later start', async () => {
  const server = await startServer();
  const firstPid = server.pid;
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  expect(await server.stop()).toBe(0);
  await server.restart();
  expect(server.pid).not.toBe(firstPid);
  await server.kill();
  await server.restart();
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
});

test('without DATABASE_URL it brings its own database, keeps its token, and shares the folder with no other server', async () => {
  const dataDir = freshFolder();
  const env = { DATABASE_URL: undefined, JOBCELL_ADMIN_TOKEN: undefined, JOBCELL_DATA_DIR: dataDir };
  const server = await startServer({ env });
  const file = join(dataDir, 'admin-token');
  const told = `jobcell listening on ${server.url}\nthe admin token is in ${file}\n`;
  await expect.poll(() => server.output()).toBe(told);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const token = readFileSync(file, 'utf8').trim();
  const client = () => new Client(server, token);
  const { name } = await client().createWorkspace();

  expect(await failingServe(['--port', '0', '--data-dir', dataDir])).toMatch(/Another jobcell server.*DATABASE_URL/);

  await server.kill();
  await server.restart();
  expect(readFileSync(file, 'utf8').trim()).toBe(token);
  expect((await client().get(`/v1/workspaces/${name}`)).status).toBe(200);
});

test('an admin-token file without a usable token is refused', async () => {
  const dataDir = freshFolder();
  writeFileSync(join(dataDir, 'admin-token'), 'short\n');
  const env = { DATABASE_URL: await createDatabase() };
  expect(await failingServe(['--data-dir', dataDir], env)).toMatch(/admin-token holds no token/);
});

test('the demo shows the run and its journal, ends with 0 and leaves nothing behind', async () => {
  const tmp = join(freshFolder(), 'tmp');
  mkdirSync(tmp);
  const { code, stdout, stderr } = await jobcell(['demo'], { TMPDIR: tmp, NO_COLOR: '1' });
  expect(code, stderr).toBe(0);
  expect(stdout).not.toContain('\x1b');
  // Four levels deep, one call in a loop, one failure that was caught, one workflow started.
  expect(stdout).toMatch(/ {8}▸ convert-currency/);
  expect(stdout.match(/▸ reserve-item/g)).toHaveLength(3);
  expect(stdout).toMatch(/✗ charge-gift-card .*The gift card holds less than/);
  expect(stdout).toMatch(/"paidBy": "credit card"/);
  expect(stdout).toMatch(/start send-receipt\s+✓ SUCCESS/);
  expect(readdirSync(tmp)).toEqual([]);
}, 120_000);
