/** jobcell and its peers with the work of step-work.ts, each on a database of its own: for `steps` and `sequential`. */
import type { BenchDatabase } from './database.ts';
import { load } from './load.ts';
import { installPeers, type Peer, startPeer, versionOf } from './peer.ts';
import { openClient, runExecution, startServer } from './server.ts';
import { putStepWork, workspaces } from './step-work.ts';

export interface StepContender {
  name: 'jobcell' | 'dbos' | 'openworkflow';
  databaseUrl: string;
  /** Of the server, or of the peer. */
  pid: number;
  /** Runs executions of so many steps, so many under way at once. @returns how long it took, ms. */
  run(work: { executions: number; steps: number; atOnce: number }): Promise<number>;
  stop(): Promise<void>;
}

export async function startStepContenders(database: BenchDatabase): Promise<StepContender[]> {
  installPeers();
  return [
    await startOurs(database),
    await startPeerContender(database, 'dbos'),
    await startPeerContender(database, 'openworkflow'),
  ];
}

async function startOurs(database: BenchDatabase): Promise<StepContender> {
  const databaseUrl = await database.create('ours');
  const server = await startServer(databaseUrl, database.folder);
  const client = openClient(server.url, 64);
  await putStepWork(client);
  return {
    name: 'jobcell',
    databaseUrl,
    pid: server.pid,
    run: ({ executions, steps, atOnce }) =>
      load(executions, atOnce, (n) => runExecution(client, workspaces[n % workspaces.length]!, 'steps', { steps })),
    stop: async () => {
      client.close();
      await server.stop();
    },
  };
}

async function startPeerContender(database: BenchDatabase, name: 'dbos' | 'openworkflow'): Promise<StepContender> {
  const databaseUrl = await database.create(name);
  const peer: Peer = await startPeer(`${name}.mjs`, { PEER_DATABASE_URL: databaseUrl });
  return { name, databaseUrl, pid: peer.pid, run: (work) => peer.ask<number>('steps', work), stop: peer.stop };
}

/** What a section says about the peers. */
export const peerLine = (): string =>
  `- Peers: ${versionOf('@dbos-inc/dbos-sdk')}, called directly, and ${versionOf('openworkflow')}. Their steps are plain functions in their own process, without a sandbox; their work is put in by that process, that of jobcell by another one over HTTP.`;

/** The limit: isolated-vm alone in processes of its own (bench/peers/isolates.ts). */
export async function startLimit(processes: number): Promise<{
  /** Runs so many steps in all. @returns how long it took, ms. */
  run(steps: number): Promise<number>;
  stop(): Promise<void>;
}> {
  const peers = await Promise.all(Array.from({ length: processes }, () => startPeer('isolates.ts')));
  return {
    run: async (steps) => {
      const share = { steps: Math.ceil(steps / processes) };
      return Math.max(...(await Promise.all(peers.map((peer) => peer.ask<number>('steps', share)))));
    },
    stop: async () => {
      for (const peer of peers) await peer.stop();
    },
  };
}
