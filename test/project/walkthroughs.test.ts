import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import { startServer, type TestServer } from '../support/server.ts';

const hasCurl = spawnSync('curl', ['--version']).status === 0;

/** Runs the commands of a page in a fresh folder, and answers what they print. */
function runPage(page: string, server: TestServer, replacements: [from: string, to: string][] = []): string {
  const text = readFileSync(join(packageRoot, 'docs', page), 'utf8');
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block!);
  // The server is this test's own, so its address and its token are.
  let script = blocks.filter((block) => !block.startsWith('npm ')).join('echo\n');
  const own: typeof replacements = [
    ['http://127.0.0.1:4700', server.url],
    ['$(cat .jobcell/admin-token)', server.adminToken],
  ];
  for (const [from, to] of [...own, ...replacements]) script = script.replaceAll(from, to);
  const cwd = mkdtempSync(join(inject('runFolder'), 'tutorial-'));
  const { status, stdout, stderr } = spawnSync('bash', ['--norc', '-euo', 'pipefail', '-c', script], {
    cwd,
    encoding: 'utf8',
  });
  expect({ status, stderr }, stdout).toEqual({ status: 0, stderr: '' });
  return stdout;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test.skipIf(!hasCurl)('the commands of docs/getting-started.md do what the page says', async () => {
  const stdout = runPage('getting-started.md', await startServer());
  expect(stdout).not.toContain('"code"');
  // Two runs, plain and replayed: the result stands at the execution and at its main job execution.
  expect(stdout.match(/"result": *\{"greeting": *"HELLO ADA!"\}/g)).toHaveLength(4);
  expect(stdout).toMatch(/"workflow": *"greeting"/);
});

test.skipIf(!hasCurl)('the commands of docs/tailordb.md do what the page says', async () => {
  const port = String(await freePort());
  const server = await startServer({ env: { JOBCELL_FETCH_ALLOW: `127.0.0.1:${port}` } });
  const stdout = runPage('tailordb.md', server, [['4799', port]]);
  const failure = `fetch failed: Nothing listens at 127.0.0.1:${port}: the connection was refused (http://127.0.0.1:${port}/rate).`;
  // At the execution and its three job executions; then again with a replay.
  expect(stdout.match(/"result": *\{"sales": *1, *"usd": *"100\.00"\}/g)?.length).toBeGreaterThanOrEqual(2);
  expect(stdout).toContain(failure);
  expect(stdout.match(/"status": *"FAILED"/g)).not.toBeNull();
  expect(stdout).toMatch(/"results": *\[\{"command": *"CREATE", *"rowCount": *0\}\]/);
  expect(stdout).toMatch(/"results": *\[\{"command": *"DELETE", *"rowCount": *1\}\]/);
  // The only errors are those that the page announces.
  expect(stdout).not.toMatch(/urn:jobcell:error/);
  expect(stdout).not.toContain('k-123');
});
