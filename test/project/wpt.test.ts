import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import { nodeBinary } from '../support/server-process.ts';

/** What stands behind `npm run wpt`, after the build. */
function wpt(...args: string[]) {
  const { status, stderr } = spawnSync(nodeBinary, [join(packageRoot, 'test', 'wpt', 'main.ts'), ...args], {
    encoding: 'utf8',
  });
  return { status, stderr };
}

test('npm run wpt says what is wrong with its arguments', () => {
  expect(wpt()).toEqual({ status: 1, stderr: expect.stringContaining('The option --suite is missing.') });
  const suite = mkdtempSync(join(tmpdir(), 'jobcell-wpt-'));
  onTestFinished(() => rmSync(suite, { recursive: true }));
  expect(wpt('--suite', suite)).toEqual({
    status: 1,
    stderr: expect.stringContaining(`${suite} has no resources/testharness.js`),
  });
  mkdirSync(join(suite, 'resources'));
  writeFileSync(join(suite, 'resources', 'testharness.js'), '');
  expect(wpt('--suite', suite, 'urls')).toEqual({
    status: 1,
    stderr: expect.stringMatching(/^There is no area urls\. There are url, streams, /),
  });
});
