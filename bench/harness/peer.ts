/** Peers: other systems, each in a process of its own, that do the same work (bench/peers). */
import { fork, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/paths.ts';
import { endWithThisProcess } from '../../test/support/reaper.ts';

export const peersFolder = join(packageRoot, 'bench', 'peers');

export interface Peer {
  pid: number;
  /** Has the peer do a piece of work; what it answers is JSON. */
  ask<T>(command: string, args?: unknown): Promise<T>;
  stop(): Promise<void>;
}

/** The installed version of a peer, as `name 1.2.3`. */
export function versionOf(name: string): string {
  const { version } = JSON.parse(readFileSync(join(peersFolder, 'node_modules', name, 'package.json'), 'utf8'));
  return `${name} ${version}`;
}

/** Installs what package-lock.json of bench/peers names, unless that is there already. No script of a package is run. */
export function installPeers(): void {
  const installed = join(peersFolder, 'node_modules', '.package-lock.json');
  if (existsSync(installed) && !differs(installed)) return;
  console.error('bench: installing the peers (npm ci) ...');
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--include=optional'], {
    cwd: peersFolder,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0) throw new Error(`npm ci failed in ${peersFolder}; run it by hand to see why.`);
}

/** Whether another version of something is installed. Packages for other platforms are not. */
function differs(installed: string): boolean {
  interface Lock {
    packages: Record<string, { version?: string; optional?: boolean; peer?: boolean }>;
  }
  const read = (file: string) => (JSON.parse(readFileSync(file, 'utf8')) as Lock).packages;
  const found = read(installed);
  return Object.entries(read(join(peersFolder, 'package-lock.json'))).some(
    ([path, { version, optional }]) =>
      path !== '' && found[path]?.version !== version && !(optional === true && found[path] === undefined),
  );
}

/** Starts bench/peers/`file`, which ends with this process at the latest. */
export async function startPeer(file: string, env: Record<string, string> = {}): Promise<Peer> {
  const child = fork(join(peersFolder, file), {
    env: { ...process.env, ...env },
    execArgv: ['--no-node-snapshot'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  endWithThisProcess(child);
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      for (const { reject } of waiting.values()) reject(new Error(`${file} ended with ${signal ?? code}.`));
      resolve();
    });
  });
  child.on('message', ({ id, result, error }: { id: number; result?: unknown; error?: string }) => {
    if (error === undefined) waiting.get(id)?.resolve(result);
    else waiting.get(id)?.reject(new Error(`${file}: ${error}`));
    waiting.delete(id);
  });
  let next = 0;
  const ask = <T>(command: string, args?: unknown): Promise<T> => {
    const id = next++;
    const answer = Promise.withResolvers<unknown>();
    waiting.set(id, answer);
    child.send({ id, command, args });
    return answer.promise as Promise<T>;
  };
  await ask('ready');
  return {
    pid: child.pid!,
    ask,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
