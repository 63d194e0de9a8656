import { typeError } from './errors.ts';
import {
  append,
  apply,
  create,
  defineProperty,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  IntrinsicPromise,
  IntrinsicWeakMap,
  IteratorPrototype,
  iterator,
  ownKeys,
  toStringTag,
  weakGet,
  weakSet,
} from './intrinsics.ts';
import { asNative, asNativeClass, membersAsNative } from './native.ts';

type Callable = (...args: unknown[]) => unknown;

interface InterfaceOptions {
  /** Methods that answer wrong calls with a rejection, since they return promises. */
  promises?: string[];
  /** Numbers that stand on the class and on its prototype. */
  constants?: Record<string, number>;
  clonable?: Clonable;
}

/** What `structuredClone` makes of an instance of an interface; without it, it refuses one. */
export interface Clonable {
  /** What is kept of the instance, of which `restore` makes its clone. */
  keep: (instance: object, inner: (value: unknown) => unknown) => unknown;
  restore: (kept: unknown, inner: (kept: unknown) => unknown) => object;
}

const prototypes = new WeakMap<object, unknown>();

interface Platform {
  name: string;
  clonable: Clonable | undefined;
}

/** Tells that instances of a class are objects of the platform, also where a library has the class. */
export function platformClass(name: string, Class: { prototype: object }, clonable?: Clonable): void {
  weakSet(prototypes, Class.prototype, { name, clonable } satisfies Platform);
  asNativeClass(name, Class);
}

/** The interface of an object of the platform, as its prototypes tell; undefined for any other object. */
export function platformOf(value: object): Platform | undefined {
  for (let at = getPrototypeOf(value); at !== null; at = getPrototypeOf(at)) {
    const known = weakGet(prototypes, at as object) as Platform | undefined;
    if (known !== undefined) return known;
  }
  return undefined;
}

/**
 * Makes a class what Web IDL says an interface looks like: members are enumerable, `toString` of an instance tells the
 * name, and a call with too few arguments is a TypeError. How many are required is the `length` of each function, so
 * an optional parameter has a default. Every class of the web platform passes through here.
 */
export function asInterface<Class extends object>(name: string, made: Class, options: InterfaceOptions = {}): Class {
  const { prototype } = made as { prototype: object };
  define(made, 'name', { value: name, writable: false, enumerable: false });
  members(name, prototype, options.promises ?? []);
  members(name, made, []);
  define(prototype, toStringTag, { value: name, writable: false, enumerable: false });
  const { constants, clonable } = options;
  platformClass(name, made as { prototype: object }, clonable);
  if (constants === undefined) return made;
  const names = ownKeys(constants) as string[];
  for (let i = 0; i < names.length; i++) {
    const key = names[i] as string;
    const constant = { __proto__: null, value: constants[key], writable: false, enumerable: true, configurable: false };
    defineProperty(made, key, constant as PropertyDescriptor);
    defineProperty(prototype, key, constant as PropertyDescriptor);
  }
  return made;
}

function members(name: string, holder: object, promises: string[]): void {
  const isClass = typeof holder === 'function';
  const keys = ownKeys(holder);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string | symbol;
    if (typeof key !== 'string' || key === 'constructor') continue;
    if (isClass && (key === 'prototype' || key === 'name' || key === 'length')) continue;
    const { value, get, set } = getOwnPropertyDescriptor(holder, key) as PropertyDescriptor;
    if (typeof value === 'function') {
      let rejects = false;
      for (let p = 0; p < promises.length; p++) if (promises[p] === key) rejects = true;
      define(holder, key, {
        value: operation(name, key, value as Callable, rejects),
        writable: true,
        enumerable: true,
      });
    } else if (get !== undefined) {
      define(holder, key, { get, set, enumerable: true } as PropertyDescriptor);
    }
  }
}

/** The function that scripts see in the place of a method. */
function operation(name: string, key: string, method: Callable, rejects: boolean): Callable {
  const required = method.length;
  if (required === 0 && !rejects) return method;
  const check = (count: number) => {
    if (count < required) throw tooFew(`${name}.${key}`, required, count);
  };
  const stand = {
    operation(this: unknown, ...args: unknown[]): unknown {
      if (!rejects) {
        check(args.length);
        return apply(method, this, args);
      }
      try {
        check(args.length);
        return apply(method, this, args);
      } catch (error) {
        return rejected(error);
      }
    },
  };
  define(stand.operation, 'name', { value: key, writable: false, enumerable: false });
  define(stand.operation, 'length', { value: required, writable: false, enumerable: false });
  return stand.operation;
}

function rejected(reason: unknown): Promise<never> {
  return new IntrinsicPromise((_, reject) => {
    reject(reason);
  });
}

export function tooFew(what: string, required: number, count: number): Error {
  return typeError(`${what} requires ${required} argument${required === 1 ? '' : 's'}, but ${count} given.`);
}

function define(target: object, key: PropertyKey, descriptor: PropertyDescriptor): void {
  const plain = { __proto__: null, configurable: true, ...descriptor };
  defineProperty(target, key, plain as PropertyDescriptor);
}

/** An options object of Web IDL: nothing given counts as an empty one. @throws TypeError for a primitive. */
export function dictionary(value: unknown, what: string): Record<string, unknown> {
  if (value === undefined || value === null) return create(null) as Record<string, unknown>;
  if (typeof value !== 'object' && typeof value !== 'function') throw typeError(`${what} is an object.`);
  return value as Record<string, unknown>;
}

interface IteratorState<T> {
  instance: T;
  kind: 'entries' | 'keys' | 'values';
  at: number;
}

/** The members of a list of Web IDL, each converted as it comes. @throws TypeError for what cannot be iterated. */
export function sequence<T>(value: unknown, what: string, convert: (member: unknown) => T): T[] {
  const holder = typeof value === 'object' || typeof value === 'function' ? value : null;
  const iterate: unknown = holder === null ? undefined : (holder as { [iterator]?: unknown })[iterator];
  if (typeof iterate !== 'function') throw typeError(`${what} is a list.`);
  return sequenceBy(value, iterate as Callable, convert);
}

/** Likewise, by an iterator's method that was asked for already. */
export function sequenceBy<T>(value: unknown, iterate: Callable, convert: (member: unknown) => T): T[] {
  const members: T[] = [];
  const source = apply(iterate, value, []) as Iterator<unknown>;
  if (typeof source !== 'object' || source === null) throw typeError('An iterator is an object.');
  const { next } = source;
  for (;;) {
    const result = apply(next as Callable, source, []) as IteratorResult<unknown>;
    if (typeof result !== 'object' || result === null) throw typeError('What an iterator gives is an object.');
    if (result.done) return members;
    append(members, convert(result.value));
  }
}

/**
 * `entries`, `keys`, `values`, `forEach` and the iterator of an interface whose instances are lists of pairs. The list is
 * asked for at each step, so changes while it is iterated show.
 */
export function iterablePairs<T extends object>(
  name: string,
  Class: { prototype: T },
  pairsOf: (instance: T) => readonly (readonly [unknown, unknown])[],
): void {
  const states = new IntrinsicWeakMap<object, unknown>();
  const iteratorPrototype = create(IteratorPrototype) as object;
  const stand = {
    next(this: object): IteratorResult<unknown> {
      const state = weakGet(states, this) as IteratorState<T> | undefined;
      if (state === undefined) throw typeError(`next is called on something that is no ${name} Iterator.`);
      const pairs = pairsOf(state.instance);
      const pair = state.at < pairs.length ? pairs[state.at++] : undefined;
      if (pair === undefined) return { value: undefined, done: true };
      const value = state.kind === 'keys' ? pair[0] : state.kind === 'values' ? pair[1] : [pair[0], pair[1]];
      return { value, done: false };
    },
    entries(this: T) {
      return iterate(this, 'entries');
    },
    keys(this: T) {
      return iterate(this, 'keys');
    },
    values(this: T) {
      return iterate(this, 'values');
    },
    forEach(this: T, callback: unknown, receiver: unknown = undefined): void {
      let pairs = pairsOf(this);
      if (typeof callback !== 'function') throw typeError(`${name}.forEach needs a function.`);
      for (let i = 0; i < pairs.length; i++) {
        const pair = pairs[i] as readonly [unknown, unknown];
        apply(callback as Callable, receiver, [pair[1], pair[0], this]);
        pairs = pairsOf(this);
      }
    },
  };

  function iterate(instance: T, kind: 'entries' | 'keys' | 'values'): object {
    pairsOf(instance);
    const made = create(iteratorPrototype) as object;
    weakSet(states, made, { instance, kind, at: 0 } satisfies IteratorState<T>);
    return made;
  }

  define(iteratorPrototype, 'next', { value: stand.next, writable: true, enumerable: true });
  define(iteratorPrototype, toStringTag, { value: `${name} Iterator`, writable: false, enumerable: false });
  const { prototype } = Class;
  define(prototype, 'entries', { value: stand.entries, writable: true, enumerable: true });
  define(prototype, 'keys', { value: stand.keys, writable: true, enumerable: true });
  define(prototype, 'values', { value: stand.values, writable: true, enumerable: true });
  define(prototype, 'forEach', {
    value: operation(name, 'forEach', stand.forEach as Callable, false),
    writable: true,
    enumerable: true,
  });
  define(prototype, iterator, { value: stand.entries, writable: true, enumerable: false });
  membersAsNative(prototype);
  asNative('next', stand.next);
}
