import { typeError } from '../errors.ts';
import {
  append,
  apply,
  arrayFrom,
  arrayIterator,
  isEnumerable,
  iterator,
  once,
  ownKeys,
  sort,
  toLowerCase,
  toText,
} from '../intrinsics.ts';
import { isHeaderValue, isToken, trimmed } from './http-text.ts';

/** The name in lower case. */
export type HeaderPair = [name: string, value: string];

export type Headers = InstanceType<ReturnType<typeof headersClass>['Headers']>;

export const headersClass = once(() => {
  /** In the order they were added, one per call of `append`. */
  let pairsOf!: (headers: Headers) => HeaderPair[];

  class Headers {
    #pairs: HeaderPair[] = [];

    static {
      pairsOf = (headers) => headers.#pairs;
    }

    constructor(init?: unknown) {
      if (init === undefined) return;
      if (typeof init !== 'object' || init === null) {
        throw typeError('Headers are made of an object, an array of pairs or other Headers.');
      }
      if (#pairs in init) this.#addPairs(init.#pairs);
      else if (typeof (init as { [iterator]?: unknown })[iterator] === 'function') {
        this.#addPairs(arrayFrom(init as Iterable<unknown>));
      } else this.#addMembers(init);
    }

    append(name: unknown, value: unknown): void {
      append(this.#pairs, [checkedName(name), checkedValue(name, value)] satisfies HeaderPair);
    }

    delete(name: unknown): void {
      this.#remove(checkedName(name));
    }

    get(name: unknown): string | null {
      return this.#joined(checkedName(name));
    }

    getSetCookie(): string[] {
      const values: string[] = [];
      for (let i = 0; i < this.#pairs.length; i++) {
        const pair = this.#pairs[i] as HeaderPair;
        if (pair[0] === 'set-cookie') append(values, pair[1]);
      }
      return values;
    }

    has(name: unknown): boolean {
      return this.#joined(checkedName(name)) !== null;
    }

    set(name: unknown, value: unknown): void {
      const key = checkedName(name);
      const text = checkedValue(name, value);
      this.#remove(key);
      append(this.#pairs, [key, text] satisfies HeaderPair);
    }

    forEach(callback: unknown, receiver?: unknown): void {
      if (typeof callback !== 'function') throw typeError('Headers.forEach needs a function.');
      const pairs = this.#sorted();
      for (let i = 0; i < pairs.length; i++) {
        const pair = pairs[i] as HeaderPair;
        apply(callback as () => void, receiver, [pair[1], pair[0], this] as unknown as []);
      }
    }

    entries(): Iterator<unknown> {
      return arrayIterator(this.#sorted());
    }

    keys(): Iterator<unknown> {
      return arrayIterator(column(this.#sorted(), 0));
    }

    values(): Iterator<unknown> {
      return arrayIterator(column(this.#sorted(), 1));
    }

    [iterator](): Iterator<unknown> {
      return this.entries();
    }

    #addPairs(pairs: unknown[]): void {
      for (let i = 0; i < pairs.length; i++) {
        const pair = pairs[i];
        if (typeof pair !== 'object' || pair === null) throw typeError('Headers: each pair is an array.');
        const members = arrayFrom(pair as Iterable<unknown>);
        if (members.length !== 2) throw typeError('Headers: each pair has a name and a value.');
        this.append(members[0], members[1]);
      }
    }

    #addMembers(record: object): void {
      const keys = ownKeys(record);
      for (let i = 0; i < keys.length; i++) {
        const key = keys[i] as PropertyKey;
        if (isEnumerable(record, key)) this.append(key, (record as Record<PropertyKey, unknown>)[key]);
      }
    }

    #remove(name: string): void {
      const kept: HeaderPair[] = [];
      for (let i = 0; i < this.#pairs.length; i++) {
        const pair = this.#pairs[i] as HeaderPair;
        if (pair[0] !== name) append(kept, pair);
      }
      this.#pairs = kept;
    }

    #joined(name: string): string | null {
      let value: string | null = null;
      for (let i = 0; i < this.#pairs.length; i++) {
        const pair = this.#pairs[i] as HeaderPair;
        if (pair[0] === name) value = value === null ? pair[1] : `${value}, ${pair[1]}`;
      }
      return value;
    }

    /** By name, what has one name joined, but cookies apart: their values may hold commas. */
    #sorted(): HeaderPair[] {
      const names = sort(column(this.#pairs, 0)) as string[];
      const pairs: HeaderPair[] = [];
      for (let i = 0; i < names.length; i++) {
        const name = names[i] as string;
        if (i > 0 && names[i - 1] === name) continue;
        if (name === 'set-cookie') {
          const cookies = this.getSetCookie();
          for (let c = 0; c < cookies.length; c++) append(pairs, [name, cookies[c] as string] satisfies HeaderPair);
        } else {
          append(pairs, [name, this.#joined(name) as string] satisfies HeaderPair);
        }
      }
      return pairs;
    }
  }

  return { Headers, pairsOf };
});

function column(pairs: HeaderPair[], index: 0 | 1): string[] {
  const values: string[] = [];
  for (let i = 0; i < pairs.length; i++) append(values, (pairs[i] as HeaderPair)[index]);
  return values;
}

function checkedName(name: unknown): string {
  const text = toText(name);
  if (!isToken(text)) throw typeError(`${text} is not a valid header name.`);
  return toLowerCase(text);
}

/** @throws TypeError for a value that would end its line, so that no header can be smuggled in. */
function checkedValue(name: unknown, value: unknown): string {
  const text = trimmed(toText(value));
  if (!isHeaderValue(text)) {
    throw typeError(`The value of the header ${toText(name)} holds a line break, a NUL or a character beyond U+00FF.`);
  }
  return text;
}
