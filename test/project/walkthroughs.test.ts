import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import { startServer } from '../support/server.ts';

const hasCurl = spawnSync('curl', ['--version']).status === 0;

test.skipIf(!hasCurl)('the commands of docs/getting-started.md do what the page says', async () => {
  const server = await startServer();
  const page = readFileSync(join(packageRoot, 'docs', 'getting-started.md'), 'utf8');
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block!);
  // The server is this test's own, so its address and its token are.
  const script = blocks
    .filter((block) => !block.startsWith('npm '))
    .join('echo\n')
    .replace('http://127.0.0.1:4700', server.url)
    .replace('$(cat .jobcell/admin-token)', server.adminToken);
  const cwd = mkdtempSync(join(inject('runFolder'), 'tutorial-'));
  const { status, stdout, stderr } = spawnSync('bash', ['--norc', '-euo', 'pipefail', '-c', script], {
    cwd,
    encoding: 'utf8',
  });
  expect({ status, stderr }, stdout).toEqual({ status: 0, stderr: '' });
  expect(stdout).not.toContain('"code"');
  // Two runs, plain and replayed: the result stands at the execution and at its main job execution.
  expect(stdout.match(/"result": *\{"greeting": *"HELLO ADA!"\}/g)).toHaveLength(4);
  expect(stdout).toMatch(/"workflow": *"greeting"/);
});
