import {
  apply,
  defineProperty,
  getOwnPropertyDescriptor,
  hidden,
  IntrinsicFunction,
  lazy,
  once,
  ownKeys,
  weakGet,
  weakSet,
} from './intrinsics.ts';

/** Functions of ours that show themselves as built-in, and the names they show. */
const names = new WeakMap<object, unknown>();
let hiding = false;

/** Makes a function show itself as a built-in: `toString` of it tells no source. */
export function asNative<F extends object>(name: string, stand: F): F {
  weakSet(names, stand, name);
  if (!hiding) hideSources();
  return stand;
}

/** Likewise for a class and its members. */
export function asNativeClass<Class extends { prototype: object }>(name: string, made: Class): Class {
  // The bundler takes the names of class expressions away.
  defineProperty(made, 'name', { __proto__: null, value: name } as PropertyDescriptor);
  asNative(name, made);
  membersAsNative(made);
  membersAsNative(made.prototype);
  return made;
}

/** Likewise for the functions that are properties of an object. */
export function membersAsNative<T extends object>(holder: T): T {
  const keys = ownKeys(holder);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string | symbol;
    if (key === 'constructor') continue;
    const { value, get, set } = getOwnPropertyDescriptor(holder, key) as PropertyDescriptor;
    const name = typeof key === 'string' ? key : '[Symbol.iterator]';
    if (typeof value === 'function') asNative(name, value as object);
    if (get !== undefined) asNative(`get ${name}`, get);
    if (set !== undefined) asNative(`set ${name}`, set);
  }
  return holder;
}

function hideSources(): void {
  hiding = true;
  const { prototype } = IntrinsicFunction;
  // What a script has put there is its own.
  if (getOwnPropertyDescriptor(prototype, 'toString')?.value !== native) return;
  const stand = {
    toString(this: object): string {
      const name = weakGet(names, this) as string | undefined;
      if (name !== undefined) return shown(name);
      const text = apply(native, this, []) as string;
      const { get, set } = lazySources();
      return text === get ? shown('get') : text === set ? shown('set') : text;
    },
  };
  weakSet(names, stand.toString, 'toString');
  defineProperty(prototype, 'toString', hidden(stand.toString));
}

const shown = (name: string) => `function ${name}() { [native code] }`;

/**
 * The sources of what stands in the place of a global until its first use. These functions are known by them: a mark on
 * each would cost at the start of every isolate.
 */
const lazySources = once(() => {
  const sample = {};
  lazy(sample, 'sample', () => undefined);
  const { get, set } = getOwnPropertyDescriptor(sample, 'sample') as PropertyDescriptor;
  return { get: apply(native, get as never, []) as string, set: apply(native, set as never, []) as string };
});

const { toString: native } = IntrinsicFunction.prototype;
