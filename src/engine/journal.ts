import { limits } from '../limits.ts';
import type { JournalRecord, RecordValues } from '../store/journal.ts';

/**
 * The records of one execution in memory, found by the body that made the call and the call's position in it (D5).
 * Values are kept up to a bound and otherwise read again when a replay needs them, so that no script decides how much
 * memory its journal takes here (S4).
 */
export class Journal {
  readonly #byBody = new Map<string, JournalRecord[]>();
  readonly #byPath = new Map<string, JournalRecord>();
  readonly #load: (path: string) => Promise<RecordValues>;
  #bytes = 0;
  #keptBytes = 0;

  constructor(records: JournalRecord[], load: (path: string) => Promise<RecordValues>) {
    this.#load = load;
    for (const record of records) this.put(record);
  }

  /** How many records there are. */
  get size(): number {
    return this.#byPath.size;
  }

  /** Bytes of all values, kept or not (D24). */
  get bytes(): number {
    return this.#bytes;
  }

  put(record: JournalRecord): void {
    const before = this.#byPath.get(record.path);
    this.#bytes += record.bytes - (before?.bytes ?? 0);
    if (before?.values) this.#keptBytes -= before.bytes;
    const keep = record.values !== null && this.#keptBytes + record.bytes <= limits.journalKeptBytes;
    if (keep) this.#keptBytes += record.bytes;
    const entry = keep ? record : { ...record, values: null };
    const body = this.#byBody.get(record.parentPath) ?? [];
    body[record.position] = entry;
    this.#byBody.set(record.parentPath, body);
    this.#byPath.set(record.path, entry);
  }

  /** The record of a body's call at a position. */
  at(bodyPath: string, position: number): JournalRecord | undefined {
    return this.#byBody.get(bodyPath)?.[position];
  }

  /** The record of a path: of a body itself. */
  get(path: string): JournalRecord | undefined {
    return this.#byPath.get(path);
  }

  /** The values of a record, from memory or from the database. */
  async values(record: JournalRecord): Promise<RecordValues> {
    return record.values ?? this.#load(record.path);
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

/** Bytes of a record's values. */
export const valueBytes = ({ args, result, error }: RecordValues): number =>
  Buffer.byteLength(args) + Buffer.byteLength(result ?? '') + Buffer.byteLength(error ?? '');
