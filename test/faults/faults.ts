import { setTimeout as sleep } from 'node:timers/promises';
import { runningOf } from '../support/server-process.ts';
import type { Member } from './cluster.ts';
import type { Random } from './random.ts';

/**
 * - `kill`: SIGKILL of a server, which is started again.
 * - `terminate`: SIGTERM, and started again.
 * - `stop`: SIGSTOP for longer than the lease, then SIGCONT.
 * - `away`: its database connections are cut and refused for a while.
 * - `stall`: its database connections pass nothing for a while; then they go on, or are cut.
 * - `answer`: PostgreSQL carries a statement out, and its answer is lost.
 * - `cell`: SIGKILL of one of its sandbox processes.
 */
const kinds = ['kill', 'terminate', 'stop', 'away', 'stall', 'answer', 'cell'] as const;
export type FaultKind = (typeof kinds)[number];

export interface Fault {
  kind: FaultKind;
  server: string;
  /** Milliseconds since the epoch. */
  at: number;
}

/** Statements whose answers get lost: every one that changes something on the way of a run. */
const statements = [
  'claim',
  'step-starts',
  'step-ends',
  'record-finished',
  'record-started-execution',
  'finish-execution',
  'suspend',
  'logs',
  'renew-lease',
];

/** Between two faults, ms. */
const pauseMs = [500, 2_500] as const;

/**
 * Brings faults over the servers until `signal` aborts, and then sets everything right again. At any moment one server
 * is spared, so that there is always one that can go on.
 * @returns the faults that happened, and what the servers did wrong on the way.
 */
export async function injectFaults(options: {
  members: Member[];
  random: Random;
  leaseMs: number;
  signal: AbortSignal;
}): Promise<{ faults: Fault[]; violations: string[] }> {
  const { members, random, leaseMs, signal } = options;
  const faults: Fault[] = [];
  const violations: string[] = [];
  const troubled = new Set<Member>();
  const recoveries: Promise<void>[] = [];
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined);

  async function begin(kind: FaultKind, member: Member, length: number, variant: number): Promise<void> {
    switch (kind) {
      case 'kill':
        await member.end('SIGKILL');
        await pause(length * 3_000);
        return member.restart();
      case 'terminate': {
        const code = await member.end('SIGTERM');
        if (code !== 0) violations.push(`D30: server ${member.name} ended with exit code ${code} on SIGTERM`);
        await pause(length * 3_000);
        return member.restart();
      }
      case 'stop': {
        const cells = member.cells();
        // One that was only just forked may not have been told its deadline; there is no script in it either.
        await pause(1_000);
        member.signal('SIGSTOP');
        // Not cut short by the end of the run: it is to be longer than the lease.
        await sleep(leaseMs + 500);
        const left = runningOf(cells);
        if (left.length > 0) violations.push(`D4: ${left.length} cells of the stopped server ${member.name} live on`);
        await pause(length * 3_000);
        member.signal('SIGCONT');
        return;
      }
      case 'away':
        await member.proxy.set('away');
        await pause(300 + length * leaseMs * 1.5);
        return member.proxy.set('open');
      case 'stall':
        await member.proxy.set('stalled');
        await pause(300 + length * leaseMs * 1.5);
        if (variant < 0.5) await member.proxy.set('away');
        return member.proxy.set('open');
      case 'answer':
        void member.proxy.loseAnswer(statements[Math.floor(variant * statements.length)]!);
        return;
      case 'cell': {
        const cells = member.cells();
        const cell = cells[Math.floor(variant * cells.length)];
        if (cell !== undefined) process.kill(cell, 'SIGKILL');
      }
    }
  }

  while (!signal.aborted) {
    await pause(random.between(...pauseMs));
    // All are drawn each time, so that a seed gives one order whatever the servers do.
    const [drawn, wanted, length, variant, spare] = [
      random.pick(kinds),
      random.pick(members),
      random.next(),
      random.next(),
      random.next(),
    ];
    if (signal.aborted) break;
    const well = members.filter((member) => !troubled.has(member));
    const fallback = well[Math.floor(spare * well.length)]!;
    const spared = well.length === 1 || troubled.has(wanted);
    const local = drawn === 'answer' || drawn === 'cell';
    const kind = spared && !local ? 'cell' : drawn;
    const member = spared ? fallback : wanted;
    faults.push({ kind, server: member.name, at: Date.now() });
    if (kind !== 'answer' && kind !== 'cell') troubled.add(member);
    const recovery = begin(kind, member, length, variant)
      .catch(
        (error: unknown) => void violations.push(`server ${member.name} did not come back after ${kind}: ${error}`),
      )
      .finally(() => troubled.delete(member));
    recoveries.push(recovery);
  }
  await Promise.all(recoveries);
  return { faults, violations };
}
