#!/usr/bin/env node
// Every npm script goes through here, on whatever Node is at hand (>= 20): it installs what is missing, builds, and
// then runs the real command on the packaged Node, whose ABI the isolated-vm addon is built for.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const modules = join(root, 'node_modules');
const packagedNode = join(modules, '.bin', 'node');

const commands = {
  demo: (args) => [build, () => jobcell('demo', args)],
  serve: (args) => [build, () => jobcell('serve', args)],
  test: (args) => [build, () => vitest(args)],
  wpt: (args) => [build, () => become([join(root, 'test', 'wpt', 'main.ts'), ...args])],
  faults: (args) => [build, () => become([join(root, 'test', 'faults', 'main.ts'), ...args])],
  bench: (args) => [build, () => become(['--no-node-snapshot', join(root, 'bench', 'main.ts'), ...args])],
  conformance: (args) => [build, () => become([join(root, 'test', 'conformance', 'main.ts'), ...args])],
  build: () => [build],
  verify: (args) => [
    () => step('@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.'),
    () => step('typescript/bin/tsc', '-p', '.'),
    () => step('typescript/bin/tsc', '-p', 'runtime-globals'),
    () => step('knip/bin/knip.js'),
    build,
    () => vitest(args),
  ],
};

const [command, ...rest] = process.argv.slice(2);
const steps = commands[command]?.(rest);
if (steps === undefined) fail(`unknown command ${command}; there are ${Object.keys(commands).join(', ')}.`);
install();
process.env.PATH = `${join(modules, '.bin')}${delimiter}${process.env.PATH}`;
for (const next of steps) next();

function fail(message) {
  console.error(`jobcell: ${message}`);
  process.exit(1);
}

/** The packaged Node, or the one running this script where that is the right one (as in the container image). */
function runtime() {
  if (existsSync(packagedNode)) return packagedNode;
  if (process.versions.node.startsWith('26.')) return process.execPath;
  return fail(
    'no Node 26 for this platform: jobcell packages one for Linux on x64 and arm64; elsewhere run it with Node 26.',
  );
}

function install() {
  if (isInstalled()) return;
  console.error('jobcell: installing dependencies (npm ci) ...');
  // Both kinds are asked for by name: NODE_ENV=production or an npm setting may leave them out.
  const { status, error } = spawnSync('npm', ['ci', '--include=dev', '--include=optional'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (error !== undefined) fail(`npm cannot be run: ${error.message}`);
  if (status !== 0) fail('npm ci failed; see its errors above, or run it by hand.');
  if (!isInstalled()) fail('npm ci left packages out; run it by hand to see which.');
}

/** Compares what npm says it installed with the lockfile. What is optional may be for another platform. */
function isInstalled() {
  const installedList = join(modules, '.package-lock.json');
  if (!existsSync(installedList)) return false;
  const installed = JSON.parse(readFileSync(installedList, 'utf8')).packages;
  const locked = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
  const node = `node_modules/node-${process.platform}-${process.arch}`;
  return Object.entries(locked).every(([path, { version, optional }]) => {
    if (path === '') return true;
    if (installed[path] === undefined) return optional === true && path !== node;
    return installed[path].version === version && existsSync(join(root, path));
  });
}

/** Runs a script of a package, or of ours, to its end; a failure ends everything with its exit code. */
function step(script, ...args) {
  const file = script.startsWith('.') ? join(root, script) : join(modules, script);
  const { status, signal } = spawnSync(runtime(), [file, ...args], { cwd: root, stdio: 'inherit' });
  if (signal !== null) process.kill(process.pid, signal);
  if (status !== 0) process.exit(status ?? 1);
}

function build() {
  step('./scripts/build.mjs');
}

function vitest(args) {
  become([join(modules, 'vitest', 'vitest.mjs'), 'run', ...args]);
}

function jobcell(name, args) {
  become([join(root, 'dist', 'jobcell.js'), name, ...args]);
}

/**
 * Runs the last command: signals are passed on to it, and its exit code is ours. npm's scripts begin with `exec`, or its
 * signals would end at a shell in between.
 */
function become(args) {
  const child = spawn(runtime(), args, { cwd: root, stdio: 'inherit' });
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  if (process.env.npm_lifecycle_event !== undefined) endWithParent(child);
  child.on('error', (error) => fail(`${runtime()} cannot be run: ${error.message}`));
  child.on('exit', (code, signal) => {
    for (const passedOn of signals) process.removeAllListeners(passedOn);
    if (signal !== null) process.kill(process.pid, signal);
    else process.exit(code ?? 1);
  });
}

/** npm can be killed so that it passes nothing on; what it started must not run on unseen. */
function endWithParent(child) {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    child.kill('SIGTERM');
  }, 1_000);
  timer.unref();
}
