import type { JournalRecord, Run } from './api-client.ts';

/** One line of a run's tree, in the order of the calls. */
export interface TreeLine {
  record: JournalRecord;
  /** Lines that lead to it: `│  ├─ `. */
  branch: string;
  depth: number;
}

/** The journal of a run as a tree. */
export function treeLines({ journal }: Run): TreeLine[] {
  const lines: TreeLine[] = [];
  const walk = (parentPath: string, indent: string, depth: number) => {
    const calls = journal.filter((record) => record.parentPath === parentPath && record.path !== parentPath);
    calls.sort((a, b) => a.position - b.position);
    for (const [index, record] of calls.entries()) {
      const last = index === calls.length - 1;
      lines.push({ record, branch: depth === 0 ? '' : `${indent}${last ? '└─ ' : '├─ '}`, depth });
      walk(record.path, depth === 0 ? '' : `${indent}${last ? '   ' : '│  '}`, depth + 1);
    }
  };
  walk('', '', 0);
  return lines;
}

/** Milliseconds from the record's start to its end, or to now. */
export function elapsed({ startedAt, finishedAt }: Pick<JournalRecord, 'startedAt' | 'finishedAt'>): number {
  const end = finishedAt === null ? Date.now() : Date.parse(finishedAt);
  return Math.max(0, end - Date.parse(startedAt));
}
