import type { JournalRecord } from '../store/journal.ts';

/**
 * D9: what runs again when a failed execution is resumed or retried. From main downwards: a failed body runs again, and
 * in it its failing call, wherever that stands; where none is known, its last record if that is a failure. Every other
 * record answers, failures that were caught included. Bodies that never finished run again in any case.
 *
 * @returns paths of finished records that are to be forgotten as finished.
 */
export function failedPath(records: JournalRecord[], mainPath: string): string[] {
  const calls = new Map<string, JournalRecord[]>();
  for (const record of records) {
    const siblings = calls.get(record.parentPath) ?? [];
    siblings[record.position] = record;
    calls.set(record.parentPath, siblings);
  }
  const paths: string[] = [];
  let record = records.find((candidate) => candidate.path === mainPath);
  while (record?.status === 'FAILED') {
    paths.push(record.path);
    const made: JournalRecord[] = calls.get(record.path) ?? [];
    record = record.failingPosition === null ? made.at(-1) : made[record.failingPosition];
  }
  return paths;
}

/**
 * D8: what `resume { from }` forgets: the record at the path with all below it, and all later calls of its ancestors'
 * bodies.
 *
 * @returns the paths to delete, and those of the ancestors, which run again; null when there is no such record.
 */
export function forgetFrom(records: JournalRecord[], from: string): { forget: string[]; again: string[] } | null {
  const byPath = new Map(records.map((record) => [record.path, record]));
  const start = byPath.get(from);
  if (!start) return null;
  const again: string[] = [];
  /** Body -> the position from which on its calls are forgotten. */
  const cut = new Map<string, number>();
  for (let record: JournalRecord | undefined = start; record && record.parentPath !== ''; ) {
    cut.set(record.parentPath, record === start ? record.position : record.position + 1);
    again.push(record.parentPath);
    record = byPath.get(record.parentPath);
  }
  const forget = records.filter((record) => isCut(record, byPath, cut)).map((record) => record.path);
  // Main itself: it runs again, with nothing recorded.
  if (start.parentPath === '') {
    return { forget: records.filter((record) => record !== start).map((record) => record.path), again: [start.path] };
  }
  return { forget, again };
}

function isCut(record: JournalRecord, byPath: Map<string, JournalRecord>, cut: Map<string, number>): boolean {
  for (let above: JournalRecord | undefined = record; above; above = byPath.get(above.parentPath)) {
    const position = cut.get(above.parentPath);
    if (position !== undefined && above.position >= position) return true;
  }
  return false;
}
