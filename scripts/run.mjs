#!/usr/bin/env node
// Every npm script goes through here, on whatever Node is at hand (>= 20): it installs what is missing, builds, and
// then runs the real command on the packaged Node, whose ABI the isolated-vm addon is built for.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const bin = (name) => join(root, 'node_modules', '.bin', name);

/** The packaged Node, or the one running this script where it is new enough (as in the container image). */
function runtime() {
  if (existsSync(bin('node'))) return bin('node');
  if (Number(process.versions.node.split('.')[0]) >= 26) return process.execPath;
  fail('no Node 26 for this platform: jobcell packages one for Linux on x64 and arm64; elsewhere run it with Node 26.');
}

function fail(message) {
  console.error(`jobcell: ${message}`);
  process.exit(1);
}

function install() {
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  const stamp = join(root, 'node_modules', '.jobcell-installed');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return;
  console.error('jobcell: installing dependencies (npm ci) ...');
  const { status } = spawnSync('npm', ['ci', '--include=optional', '--include=dev'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) fail('npm ci failed; its output above says why.');
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, lock);
}

function step(args) {
  const { status } = spawnSync(runtime(), args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

const build = () => step([join(root, 'scripts', 'build.mjs')]);
const vitest = (args) => [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...args];
const [command = 'help', ...rest] = process.argv.slice(2);

install();
process.env.PATH = `${join(root, 'node_modules', '.bin')}:${process.env.PATH}`;
if (command === 'verify') {
  step([join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome'), 'check', '--error-on-warnings', '.']);
  step([join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', '.']);
  step([join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', 'runtime-globals']);
  step([join(root, 'node_modules', 'knip', 'bin', 'knip.js')]);
  build();
  step(vitest(rest));
} else if (command === 'build') {
  build();
} else {
  build();
  const args = command === 'test' ? vitest(rest) : [join(root, 'dist', 'jobcell.js'), command, ...rest];
  const child = spawn(runtime(), args, { cwd: root, stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => (signal ? process.kill(process.pid, signal) : process.exit(code ?? 1)));
}
