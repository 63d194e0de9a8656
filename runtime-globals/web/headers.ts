import { typeError } from '../errors.ts';
import { asInterface, iterablePairs, sequence, sequenceBy } from '../interface.ts';
import {
  append,
  apply,
  charCodeAt,
  getOwnPropertyDescriptor,
  iterator,
  ownKeys,
  sort,
  toDomText,
  toLowerCase,
} from '../intrinsics.ts';
import { isHeaderValue, isToken, trimmed } from './http-text.ts';

/** The name in lower case. */
export type HeaderPair = [name: string, value: string];

/** In the order they were added, one per call of `append`. */
export let pairsOf: (headers: Headers) => HeaderPair[];
/** From here on scripts cannot change them. */
export let freeze: (headers: Headers) => void;

let sortedOf: (headers: Headers) => HeaderPair[];

export class Headers {
  #pairs: HeaderPair[] = [];
  #frozen = false;
  /** What iterators go through; made anew after a change. */
  #sorted: HeaderPair[] | undefined;

  static {
    pairsOf = (headers) => headers.#pairs;
    freeze = (headers) => {
      headers.#frozen = true;
    };
    sortedOf = (headers) => {
      headers.#sorted ??= sorted(headers.#pairs);
      return headers.#sorted;
    };
  }

  constructor(init: unknown = undefined) {
    if (init === undefined) return;
    if ((typeof init !== 'object' && typeof init !== 'function') || init === null) {
      throw typeError('Headers are made of an object, a list of pairs or other Headers.');
    }
    const iterate: unknown = (init as { [iterator]?: unknown })[iterator];
    if (iterate === undefined || iterate === null) this.#addMembers(init);
    else if (typeof iterate === 'function') this.#addPairs(sequenceBy(init, iterate as () => unknown, pairOf));
    else throw typeError('Headers: the list of pairs cannot be iterated.');
  }

  append(name: unknown, value: unknown): void {
    const key = byteText(name);
    const text = checkedValue(key, byteText(value));
    this.#change();
    append(this.#pairs, [checkedName(key), text] satisfies HeaderPair);
  }

  delete(name: unknown): void {
    const key = checkedName(byteText(name));
    this.#change();
    this.#remove(key);
  }

  get(name: unknown): string | null {
    return joined(this.#pairs, checkedName(byteText(name)));
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
    return joined(this.#pairs, checkedName(byteText(name))) !== null;
  }

  set(name: unknown, value: unknown): void {
    const key = byteText(name);
    const text = checkedValue(key, byteText(value));
    const lower = checkedName(key);
    this.#change();
    this.#remove(lower);
    append(this.#pairs, [lower, text] satisfies HeaderPair);
  }

  #change(): void {
    if (this.#frozen)
      throw typeError('These headers cannot be changed: they came with a response. Copy them with new Headers.');
    this.#sorted = undefined;
  }

  #addPairs(pairs: string[][]): void {
    for (let i = 0; i < pairs.length; i++) {
      const pair = pairs[i] as string[];
      if (pair.length !== 2) throw typeError('Headers: each pair has a name and a value.');
      addTo(this, pair[0], pair[1]);
    }
  }

  /** All texts are made before any is added, as Web IDL's records are. */
  #addMembers(record: object): void {
    const keys = ownKeys(record);
    const members: [string, string][] = [];
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as PropertyKey;
      if (getOwnPropertyDescriptor(record, key)?.enumerable !== true) continue;
      const name = byteText(key);
      append(members, [name, byteText((record as Record<PropertyKey, unknown>)[key])]);
    }
    for (let i = 0; i < members.length; i++) {
      const member = members[i] as [string, string];
      addTo(this, member[0], member[1]);
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
}

/** Not by the name that a script may have given another method. */
const { append: addHeader } = Headers.prototype;

export function addTo(headers: Headers, name: unknown, value: unknown): void {
  apply(addHeader, headers, [name, value]);
}

asInterface('Headers', Headers);
iterablePairs('Headers', Headers, (headers) => sortedOf(headers));

const pairOf = (pair: unknown): string[] => sequence(pair, 'Headers: each pair', byteText);

export function joined(pairs: HeaderPair[], name: string): string | null {
  let value: string | null = null;
  for (let i = 0; i < pairs.length; i++) {
    const pair = pairs[i] as HeaderPair;
    if (pair[0] === name) value = value === null ? pair[1] : `${value}, ${pair[1]}`;
  }
  return value;
}

/** By name, what has one name joined, but cookies apart: their values may hold commas. */
function sorted(all: HeaderPair[]): HeaderPair[] {
  const names: string[] = [];
  for (let i = 0; i < all.length; i++) append(names, (all[i] as HeaderPair)[0]);
  sort(names);
  const pairs: HeaderPair[] = [];
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string;
    if (i > 0 && names[i - 1] === name) continue;
    if (name !== 'set-cookie') append(pairs, [name, joined(all, name) as string] satisfies HeaderPair);
    else {
      for (let c = 0; c < all.length; c++) if (all[c]?.[0] === name) append(pairs, all[c] as HeaderPair);
    }
  }
  return pairs;
}

/** A text whose characters are bytes. */
function byteText(value: unknown): string {
  const text = toDomText(value);
  for (let i = 0; i < text.length; i++) {
    if (charCodeAt(text, i) > 0xff) throw typeError('A header holds a character beyond U+00FF.');
  }
  return text;
}

function checkedName(name: string): string {
  if (!isToken(name)) throw typeError(`${name} is not a valid header name.`);
  return toLowerCase(name);
}

/** @throws TypeError for a value that would end its line, so that no header can be smuggled in. */
function checkedValue(name: string, value: string): string {
  checkedName(name);
  const text = trimmed(value);
  if (!isHeaderValue(text)) throw typeError(`The value of the header ${name} holds a line break or a NUL.`);
  return text;
}
