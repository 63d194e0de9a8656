import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import { nodeBinary } from '../support/server.ts';

/** What `npm run verify` runs before the tests: here too, since CI runs the tests alone. */
const checks: [what: string, script: string, args: string[]][] = [
  ['format and lint', '@biomejs/biome/bin/biome', ['check', '--error-on-warnings', '.']],
  ['types', 'typescript/bin/tsc', ['-p', '.']],
  ['types of the runtime globals', 'typescript/bin/tsc', ['-p', 'runtime-globals']],
  ['no dead code', 'knip/bin/knip.js', ['--no-progress']],
];

test.each(checks)('%s', { timeout: 300_000 }, async (_, script, args) => {
  const { code, output } = await new Promise<{ code: unknown; output: string }>((resolve) => {
    execFile(
      nodeBinary,
      [join(packageRoot, 'node_modules', script), ...args],
      { cwd: packageRoot, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => resolve({ code: error?.code ?? 0, output: stdout + stderr }),
    );
  });
  expect(code, output).toBe(0);
});

test('a signal to npm reaches what its scripts run', () => {
  // npm passes signals to its shell only; with `exec` no shell is left in between.
  const { scripts } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const ours = Object.values(scripts).filter((script) => script.includes('scripts/run.mjs'));
  expect(ours.length).toBeGreaterThan(3);
  expect(ours.filter((script) => !script.startsWith('exec node '))).toEqual([]);
});
