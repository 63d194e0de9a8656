import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { load, names } from '../../bench/harness/benchmark.ts';
import { packageRoot } from '../../src/paths.ts';
import { nodeBinary } from '../support/server-process.ts';

const bench = (...args: string[]) =>
  new Promise<{ code: unknown; output: string }>((resolve) => {
    const main = join(packageRoot, 'bench', 'main.ts');
    execFile(nodeBinary, [main, ...args], (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, output: stdout + stderr }),
    );
  });

test('every file of bench/ is a benchmark that is listed, but for the command', () => {
  const files = globSync('bench/*.ts', { cwd: packageRoot }).map((file) => basename(file, '.ts'));
  expect(files.filter((file) => file !== 'main').sort()).toEqual([...names].sort());
});

test.each(names)('%s can be loaded, and says in its head what it measures', async (name) => {
  const { title, run } = await load(name);
  expect(title).not.toBe('');
  expect(run).toBeTypeOf('function');
  expect(readFileSync(join(packageRoot, 'bench', `${name}.ts`), 'utf8')).toMatch(/^\/\*\*\n \* \S/);
});

test('a benchmark that does not exist is answered by those that do', async () => {
  const { code, output } = await bench('nonsense');
  expect(code).toBe(1);
  expect(output).toContain('There is no benchmark nonsense.');
  for (const name of names) expect(output).toContain(name);
});

test.each([[[]], [['steps', '--rounds', '0']], [['steps', '--nonsense']]])('%j is refused', async (args) => {
  const { code, output } = await bench(...args);
  expect(code).toBe(1);
  expect(output).toContain('usage: npm run bench -- NAME');
});

test('the peers are pinned, and their lockfile names no registry', () => {
  const read = (file: string) => readFileSync(join(packageRoot, 'bench', 'peers', file), 'utf8');
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
  const locked = JSON.parse(read('package-lock.json')) as { packages: Record<string, { version: string }> };
  for (const [name, version] of Object.entries(dependencies)) {
    expect(locked.packages[`node_modules/${name}`]?.version).toBe(version);
  }
  expect(read('package-lock.json')).not.toContain('"resolved"');
});
