import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { endWithThisProcess } from '../../test/support/reaper.ts';
import { peersFolder } from './peer.ts';

/** The platforms that workerd's packages are for, as Node calls them. */
const builds: Record<string, string> = { x64: 'linux-64', arm64: 'linux-arm64' };
const startMs = 30_000;

/** Starts workerd as bench/peers/workerd configures it. It ends with this process at the latest. */
export async function startWorkerd(): Promise<{ url: string; stop(): Promise<void> }> {
  const program = join(peersFolder, 'node_modules', '@cloudflare', `workerd-${builds[process.arch]}`, 'bin', 'workerd');
  const port = await freePort();
  const config = join(peersFolder, 'workerd', 'config.capnp');
  const child = spawn(program, ['serve', config, '--experimental', `--socket-addr=http=127.0.0.1:${port}`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  endWithThisProcess(child);
  const ended = new Promise<string>((resolve) => {
    child.once('error', ({ message }) => resolve(message));
    child.once('exit', (code, signal) => resolve(`it ended with ${signal ?? code}`));
  });
  const url = `http://127.0.0.1:${port}`;
  const ready = async () => {
    for (const begun = performance.now(); performance.now() - begun < startMs; await sleep(50)) {
      const answer = await fetch(url, { method: 'POST', body: '{"args":{"name":"Ada"}}' }).catch(() => null);
      if (answer?.ok) return 'ready';
    }
    child.kill('SIGKILL');
    return `it was not ready within ${startMs / 1_000} s`;
  };
  const state = await Promise.race([ready(), ended]);
  if (state !== 'ready') throw new Error(`workerd did not start: ${state}.`);
  return {
    url,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
