#!/usr/bin/env node
// The `jobcell` command. This file must load on any Node >= 20, so it imports nothing but Node's own modules; the
// program itself is imported once the Node that runs it is the right one.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** Node 26's NODE_MODULE_VERSION: isolated-vm brings a prebuilt addon for it, and the build targets its language. */
const neededAbi = '147';

if (process.versions.modules === neededAbi) {
  const { run } = await import('./program.ts');
  await run(process.argv);
} else {
  runAgainOn(packagedNode());
}

function packagedNode(): string {
  try {
    const manifest = createRequire(import.meta.url).resolve(`node-${process.platform}-${process.arch}/package.json`);
    return join(dirname(manifest), 'bin', 'node');
  } catch {
    console.error(
      `jobcell: this is Node ${process.versions.node}, jobcell needs Node 26, and none is packaged for ` +
        `${process.platform} on ${process.arch}.\nInstall Node 26 and start jobcell with it.`,
    );
    process.exit(1);
  }
}

/** The same command in a child process: its output, its signals and its exit code are ours. */
function runAgainOn(node: string): void {
  const child = spawn(node, process.argv.slice(1), { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    console.error(`jobcell: the packaged Node cannot be run: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}
