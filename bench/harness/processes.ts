/** Times and memory of processes, from /proc. */
import { readFileSync } from 'node:fs';

const clockTicksPerSecond = 100;

const statOf = (pid: number): string[] => {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The name in brackets may hold spaces.
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
};

export const parentOf = (pid: number): number => Number(statOf(pid)[1]);

export function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Core time of a process so far, ms; 0 when it has ended. */
export function coreMs(pid: number): number {
  try {
    const stat = statOf(pid);
    return ((Number(stat[11]) + Number(stat[12])) * 1_000) / clockTicksPerSecond;
  } catch {
    return 0;
  }
}

/** Core time of its children, those that have ended included, ms. */
export function childrenCoreMs(pid: number): number {
  const stat = statOf(pid);
  const ended = ((Number(stat[13]) + Number(stat[14])) * 1_000) / clockTicksPerSecond;
  return childrenOf(pid).reduce((sum, child) => sum + coreMs(child), ended);
}

/** Resident memory of a process, MB: all of it, and the part that is its own (not shared with others). */
export function memoryOf(pid: number): { rss: number; own: number } {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const kb = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return { rss: kb('Rss') / 1_024, own: (kb('Private_Clean') + kb('Private_Dirty')) / 1_024 };
}
