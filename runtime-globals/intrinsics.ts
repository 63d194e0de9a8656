/**
 * Everything that runtime globals use of the language, captured before a script runs: a script may replace any
 * intrinsic, and must only harm itself by it. For the same reason code in this folder uses no `for of`, spread, array
 * destructuring, `push`, `instanceof` or method of a built-in prototype once a script has been evaluated.
 */
type Method<Self, Args extends unknown[], Result> = (this: Self, ...args: Args) => Result;

export const { apply, construct, deleteProperty, ownKeys, defineProperty: tryDefineProperty } = Reflect;
const { prototype: objectPrototype } = Object;

function uncurry<Self, Args extends unknown[], Result>(
  method: Method<Self, Args, Result>,
): (self: Self, ...args: Args) => Result {
  return (self, ...args) => apply(method, self, args) as Result;
}

export const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, setPrototypeOf, create } = Object;
export const { isArray } = Array;
export const isFiniteNumber = Number.isFinite;
export const { isSafeInteger } = Number;
export const { parse: parseJson, stringify: stringifyJson } = JSON;
export const { max, min, floor, round, sqrt, trunc } = Math;
export const { parseFloat: toFloat, parseInt: toInteger } = Number;
export const { now } = Date;
export const IntrinsicDate = Date;
export const IntrinsicIntl = Intl;
export const IntrinsicMath = Math;
export const IntrinsicFunction = Function;
export const toText = String;
/** As Web IDL makes texts: unlike `String`, a symbol has none. @throws TypeError for a symbol. */
export const toDomText = (value: unknown): string => `${value as string}`;
export const toNumber = Number;

export const IntrinsicPromise = Promise;
export const IntrinsicError = Error;
export const { captureStackTrace } = Error as unknown as { captureStackTrace(on: object, below: unknown): void };
export const IntrinsicTypeError = TypeError;
export const IntrinsicRangeError = RangeError;
export const IntrinsicMap = Map;
export const IntrinsicSet = Set;
export const IntrinsicWeakMap = WeakMap;
export const IntrinsicRegExp = RegExp;
export const objectOf = Object;
export const IntrinsicUint16Array = Uint16Array;
/** Of V8, but not yet in TypeScript's library. */
type Base64 = {
  fromBase64(text: string): Uint8Array;
  prototype: { toBase64(this: Uint8Array): string; toHex(this: Uint8Array): string };
};
export const { fromBase64 } = Uint8Array as unknown as Base64;
export const { fromCharCode } = String;
export const { iterator, toStringTag } = Symbol;
/** By name, so that an error from another isolate comes back as what it was. */
export const errorConstructors = {
  __proto__: null,
  Error,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
} as unknown as Record<string, ErrorConstructor | undefined>;

export const promiseThen = uncurry<Promise<unknown>, [(value: unknown) => void, (reason: unknown) => void], unknown>(
  Promise.prototype.then,
);
const hasInChain = uncurry<object, [unknown], boolean>(objectPrototype.isPrototypeOf as never);
/** Whether the prototype, captured now, is on the value's chain: what `instanceof` says, without asking the script. */
const inherits = (prototype: object) => (value: unknown) => hasInChain(prototype, value);
export const isPromise = inherits(Promise.prototype);
export const isError = inherits(Error.prototype);
export const isRangeError = inherits(RangeError.prototype);
export const isDate = inherits(Date.prototype);
export const isMap = inherits(Map.prototype);
export const isSet = inherits(Set.prototype);
const isWeakMap = inherits(WeakMap.prototype);
const isWeakSet = inherits(WeakSet.prototype);
const isWeakRef = inherits(WeakRef.prototype);
export const isWeak = (value: unknown) => isWeakMap(value) || isWeakSet(value) || isWeakRef(value);
export const isArrayBuffer = inherits(ArrayBuffer.prototype);

export const functionText = uncurry<unknown, [], string>(Function.prototype.toString);
/** What generator functions inherit from. */
export const GeneratorPrototype = getPrototypeOf(function* () {});
export const AsyncGeneratorPrototype = getPrototypeOf(async function* () {});
export const slice = uncurry<string, [number, number?], string>(String.prototype.slice);
export const indexOf = uncurry<string, [string, number?], number>(String.prototype.indexOf);
export const charCodeAt = uncurry<string, [number], number>(String.prototype.charCodeAt);
export const toWellFormed = uncurry<string, [], string>(String.prototype.toWellFormed);
export const padStart = uncurry<string, [number, string?], string>(String.prototype.padStart);
export const toRadix = uncurry<number, [number], string>(Number.prototype.toString);
export const padEnd = uncurry<string, [number], string>(String.prototype.padEnd);
export const repeat = uncurry<string, [number], string>(String.prototype.repeat);
export const replaceAll = uncurry<string, [string, string], string>(String.prototype.replaceAll as never);
export const toLowerCase = uncurry<string, [], string>(String.prototype.toLowerCase);
export const toUpperCase = uncurry<string, [], string>(String.prototype.toUpperCase);
export const sort = uncurry<unknown[], [], unknown[]>(Array.prototype.sort);
export const setBytes = uncurry<Uint8Array, [Uint8Array, number?], void>(Uint8Array.prototype.set);
export const subarray = uncurry<Uint8Array | Uint16Array, [number, number], unknown>(
  Uint8Array.prototype.subarray as never,
);
export const indexOfByte = uncurry<Uint8Array, [number, number], number>(Uint8Array.prototype.indexOf);
export const toBase64 = uncurry<Uint8Array, [], string>((Uint8Array as unknown as Base64).prototype.toBase64);
export const toHex = uncurry<Uint8Array, [], string>((Uint8Array as unknown as Base64).prototype.toHex);
export const toIsoString = uncurry<Date, [], string>(Date.prototype.toISOString);
/** Unlike `test`, it does not ask the prototype for `exec`. */
export const regExpExec = uncurry<RegExp, [string], unknown>(RegExp.prototype.exec);
export const symbolText = uncurry<unknown, [], string>(Symbol.prototype.toString);
export const mapForEach = uncurry<unknown, [(value: unknown, key: unknown) => void], void>(
  Map.prototype.forEach as never,
);
export const setForEach = uncurry<unknown, [(value: unknown) => void], void>(Set.prototype.forEach as never);

export const { isError: isErrorObject } = Error as unknown as { isError(value: unknown): value is Error };

export const mapGet = uncurry<Map<unknown, unknown>, [unknown], unknown>(Map.prototype.get);
export const mapSet = uncurry<Map<unknown, unknown>, [unknown, unknown], unknown>(Map.prototype.set);
export const setAdd = uncurry<Set<unknown>, [unknown], unknown>(Set.prototype.add);
export const mapDelete = uncurry<Map<unknown, unknown>, [unknown], boolean>(Map.prototype.delete);
const IteratorOfArrays = getPrototypeOf([].values()) as Iterator<unknown>;
/** What all built-in iterators inherit from. */
export const IteratorPrototype = getPrototypeOf(IteratorOfArrays) as object;

export const weakGet = uncurry<WeakMap<object, unknown>, [object], unknown>(WeakMap.prototype.get);
export const weakSet = uncurry<WeakMap<object, unknown>, [object, unknown], unknown>(WeakMap.prototype.set);

const typedArrayPrototype = getPrototypeOf(Uint8Array.prototype) as object;
const typedArrayGetter = (key: PropertyKey) => getOwnPropertyDescriptor(typedArrayPrototype, key)?.get as never;
/** The class of a typed array, undefined for anything else. */
export const typedArrayName = uncurry<unknown, [], string | undefined>(typedArrayGetter(Symbol.toStringTag));
export const viewBuffer = uncurry<unknown, [], ArrayBuffer>(typedArrayGetter('buffer'));
export const viewOffset = uncurry<unknown, [], number>(typedArrayGetter('byteOffset'));
export const typedArrayLength = uncurry<unknown, [], number>(typedArrayGetter('length'));
export const typedArrayKeys = uncurry<unknown, [], unknown>((typedArrayPrototype as Uint8Array).keys as never);
export const viewBytes = uncurry<unknown, [], number>(typedArrayGetter('byteLength'));
export const { isView } = ArrayBuffer;
export const IntrinsicUint8Array = Uint8Array;
export const typedArrays = {
  __proto__: null,
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float16Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
} as unknown as Record<string, unknown>;

const { wait } = Atomics;
const SharedBuffer = SharedArrayBuffer;
const Words = Int32Array;

/** Sleeps without a processor until V8 interrupts the thread; looping instead would take one from the cell. */
export function sleep(): void {
  wait(new Words(new SharedBuffer(4)), 0, 0);
}

/** Appends without a setter of a polluted prototype seeing it. */
export function append<T>(list: T[], value: T): void {
  defineProperty(list, list.length, own(value));
}

/** A descriptor of a plain own property that no polluted `Object.prototype` can complete. */
export function own(value: unknown): PropertyDescriptor {
  return { __proto__: null, value, writable: true, enumerable: true, configurable: true } as PropertyDescriptor;
}

export function hidden(value: unknown): PropertyDescriptor {
  return { __proto__: null, value, writable: true, enumerable: false, configurable: true } as PropertyDescriptor;
}

/** Defines a global whose value is made at its first use: what runs at start counts, not the bytes (step-path.md). */
export function lazy(target: object, name: string, make: () => unknown): void {
  defineProperty(target, name, {
    __proto__: null,
    configurable: true,
    enumerable: false,
    get() {
      const value = make();
      defineProperty(target, name, hidden(value));
      return value;
    },
    set(value: unknown) {
      defineProperty(target, name, hidden(value));
    },
  } as PropertyDescriptor);
}

/**
 * Makes a value at its first use and keeps it. A class stands in one of these: its definition would run at the start of
 * every isolate otherwise, and each class costs about as much as all other globals of its kind.
 */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

const { prototype: arrayPrototype } = Array;
const arrayIterator = arrayPrototype[Symbol.iterator];
const { prototype: functionPrototype } = Function;
const { call } = functionPrototype;
const { next: nextOfArray } = IteratorOfArrays;
const { hasOwnProperty: hasOwn } = objectPrototype;
const { getOwnPropertyNames } = Object;

/**
 * What the bundler's own helpers use while a bundle is loaded, as it was before any script: triples of holder, key and
 * value. No more than that, since each reading costs at the start of every isolate.
 */
export const usedWhileLoading = once(() => [
  arrayPrototype,
  iterator,
  arrayIterator,
  IteratorOfArrays,
  'next',
  nextOfArray,
  functionPrototype,
  'call',
  call,
  objectPrototype,
  'hasOwnProperty',
  hasOwn,
  objectOf,
  'create',
  create,
  objectOf,
  'defineProperty',
  defineProperty,
  objectOf,
  'getOwnPropertyDescriptor',
  getOwnPropertyDescriptor,
  objectOf,
  'getOwnPropertyNames',
  getOwnPropertyNames,
  objectOf,
  'getPrototypeOf',
  getPrototypeOf,
]);

/**
 * What bundles see under these names (scripts/globals.mjs), so that nothing of ours or of a library depends on what a
 * script has put in the place of a global before a bundle is loaded.
 * @public
 */
export const captured = {
  __proto__: null,
  Array,
  ArrayBuffer,
  BigInt,
  Boolean,
  DataView,
  Error,
  JSON,
  Map,
  Math,
  Number,
  Object,
  Promise,
  RangeError,
  Reflect,
  RegExp,
  Set,
  String,
  Symbol,
  TypeError,
  Uint8Array,
  Uint16Array,
  Uint32Array,
  WeakMap,
  WeakSet,
};
