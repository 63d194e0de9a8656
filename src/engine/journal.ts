import type { JournalRecord } from '../store/journal.ts';

/** The records of one execution in memory, found by the body that made the call and the call's position in it (D5). */
export class Journal {
  readonly #byBody = new Map<string, JournalRecord[]>();
  readonly #byPath = new Map<string, JournalRecord>();

  constructor(records: JournalRecord[]) {
    for (const record of records) this.put(record);
  }

  get size(): number {
    return this.#byPath.size;
  }

  put(record: JournalRecord): void {
    const body = this.#byBody.get(record.parentPath) ?? [];
    body[record.position] = record;
    this.#byBody.set(record.parentPath, body);
    this.#byPath.set(record.path, record);
  }

  /** The record of a body's call at a position. */
  at(bodyPath: string, position: number): JournalRecord | undefined {
    return this.#byBody.get(bodyPath)?.[position];
  }

  /** The record of a path: of a body itself. */
  get(path: string): JournalRecord | undefined {
    return this.#byPath.get(path);
  }

  /** All records, in no order. */
  all(): JournalRecord[] {
    return [...this.#byPath.values()];
  }

  /** The records of a body by position; a position without a record is undefined. */
  of(bodyPath: string): (JournalRecord | undefined)[] {
    return this.#byBody.get(bodyPath) ?? [];
  }

  /** Records of a body from a position on: calls that an earlier run made and this one has not (D7). */
  from(bodyPath: string, position: number): JournalRecord[] {
    return (this.#byBody.get(bodyPath) ?? []).slice(position).filter((record) => record !== undefined);
  }
}
