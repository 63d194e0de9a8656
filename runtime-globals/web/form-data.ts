import { typeError } from '../errors.ts';
import { asInterface, iterablePairs } from '../interface.ts';
import { append, toDomText, toWellFormed } from '../intrinsics.ts';
import { type Blob, type File, fileOf, isBlob, isFile } from './blob.ts';

export type FormEntry = [name: string, value: string | File];

/** The entries in order. */
export let entriesOf: (form: FormData) => FormEntry[];
export let isFormData: (value: unknown) => value is FormData;

export class FormData {
  #entries: FormEntry[] = [];

  static {
    entriesOf = (form) => form.#entries;
    isFormData = (value): value is FormData => typeof value === 'object' && value !== null && #entries in value;
  }

  constructor(form: unknown = undefined) {
    if (form !== undefined) throw typeError('FormData takes no form: there are none in here.');
  }

  append(name: unknown, value: unknown, filename: unknown = undefined): void {
    const entry = entryOf(name, value, filename, arguments.length > 2);
    append(this.#entries, entry);
  }

  delete(name: unknown): void {
    const wanted = toWellFormed(toDomText(name));
    const kept: FormEntry[] = [];
    for (let i = 0; i < this.#entries.length; i++) {
      const entry = this.#entries[i] as FormEntry;
      if (entry[0] !== wanted) append(kept, entry);
    }
    this.#entries = kept;
  }

  get(name: unknown): string | File | null {
    return this.getAll(name)[0] ?? null;
  }

  getAll(name: unknown): (string | File)[] {
    const wanted = toWellFormed(toDomText(name));
    const found: (string | File)[] = [];
    for (let i = 0; i < this.#entries.length; i++) {
      const entry = this.#entries[i] as FormEntry;
      if (entry[0] === wanted) append(found, entry[1]);
    }
    return found;
  }

  has(name: unknown): boolean {
    const wanted = toWellFormed(toDomText(name));
    for (let i = 0; i < this.#entries.length; i++) if (this.#entries[i]?.[0] === wanted) return true;
    return false;
  }

  /** In the place of the first entry of that name; the others go. */
  set(name: unknown, value: unknown, filename: unknown = undefined): void {
    const entry = entryOf(name, value, filename, arguments.length > 2);
    const kept: FormEntry[] = [];
    let placed = false;
    for (let i = 0; i < this.#entries.length; i++) {
      const each = this.#entries[i] as FormEntry;
      if (each[0] !== entry[0]) append(kept, each);
      else if (!placed) {
        append(kept, entry);
        placed = true;
      }
    }
    if (!placed) append(kept, entry);
    this.#entries = kept;
  }
}

function entryOf(name: unknown, value: unknown, filename: unknown, named: boolean): FormEntry {
  const key = toWellFormed(toDomText(name));
  if (!isBlob(value)) {
    if (named) throw typeError('FormData: only a Blob has a file name.');
    return [key, toWellFormed(toDomText(value))];
  }
  if (isFile(value) && !named) return [key, value];
  const title = named ? toWellFormed(toDomText(filename)) : 'blob';
  return [key, fileOf(value as Blob, title, isFile(value) ? value.lastModified : undefined)];
}

asInterface('FormData', FormData);
iterablePairs('FormData', FormData, (form) => entriesOf(form));
