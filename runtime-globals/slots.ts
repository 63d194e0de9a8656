/** What kind of built-in an object is, by its internal slots: whatever its prototype and properties say. */
import { apply, getOwnPropertyDescriptor, isErrorObject, isPromise, isView, isWeak } from './intrinsics.ts';

type Read<T> = (value: object) => T;

function reader<T>(read: (this: unknown) => T): Read<T> {
  return (value) => apply(read, value, []) as T;
}

function getter<T>(prototype: object, name: string): Read<T> {
  return reader(getOwnPropertyDescriptor(prototype, name)?.get as (this: unknown) => T);
}

export const readDate = reader<number>(Date.prototype.getTime as (this: unknown) => number);
export const readSource = getter<string>(RegExp.prototype, 'source');
const flags = [
  ['d', getter<boolean>(RegExp.prototype, 'hasIndices')],
  ['g', getter<boolean>(RegExp.prototype, 'global')],
  ['i', getter<boolean>(RegExp.prototype, 'ignoreCase')],
  ['m', getter<boolean>(RegExp.prototype, 'multiline')],
  ['s', getter<boolean>(RegExp.prototype, 'dotAll')],
  ['u', getter<boolean>(RegExp.prototype, 'unicode')],
  ['v', getter<boolean>(RegExp.prototype, 'unicodeSets')],
  ['y', getter<boolean>(RegExp.prototype, 'sticky')],
] as const;

export function readFlags(value: object): string {
  let text = '';
  for (let i = 0; i < flags.length; i++) if (flags[i]?.[1](value)) text += flags[i]?.[0];
  return text;
}

export const readMapSize = getter<number>(Map.prototype, 'size');
export const readSetSize = getter<number>(Set.prototype, 'size');
export const readBufferSize = getter<number>(ArrayBuffer.prototype, 'byteLength');
export const readResizable = getter<boolean>(ArrayBuffer.prototype, 'resizable');
export const readDetached = getter<boolean>(ArrayBuffer.prototype, 'detached');
export const readMaxSize = getter<number>(ArrayBuffer.prototype, 'maxByteLength');
export const readDataViewBuffer = getter<ArrayBuffer>(DataView.prototype, 'buffer');
export const readDataViewOffset = getter<number>(DataView.prototype, 'byteOffset');
export const readDataViewSize = getter<number>(DataView.prototype, 'byteLength');
/** The value in a wrapper object such as `new Number(1)`. */
const primitives = [
  reader<unknown>(Boolean.prototype.valueOf as (this: unknown) => unknown),
  reader<unknown>(Number.prototype.valueOf as (this: unknown) => unknown),
  reader<unknown>(String.prototype.valueOf as (this: unknown) => unknown),
  reader<unknown>(BigInt.prototype.valueOf as (this: unknown) => unknown),
  reader<unknown>(Symbol.prototype.valueOf as (this: unknown) => unknown),
];

export function primitiveIn(value: object): { primitive: unknown } | undefined {
  for (let i = 0; i < primitives.length; i++) {
    const read = primitives[i] as Read<unknown>;
    if (has(read, value)) return { primitive: read(value) };
  }
  return undefined;
}

function has(read: Read<unknown>, value: object): boolean {
  try {
    read(value);
    return true;
  } catch {
    return false;
  }
}

export type Kind = 'date' | 'regexp' | 'map' | 'set' | 'buffer' | 'view' | 'error' | 'never' | 'other';

/** `never` has no clone. */
export function kindOf(value: object): Kind {
  if (isErrorObject(value)) return 'error';
  if (isView(value)) return 'view';
  if (has(readBufferSize, value)) return 'buffer';
  if (has(readDate, value)) return 'date';
  if (has(readMapSize, value)) return 'map';
  if (has(readSetSize, value)) return 'set';
  if (value !== RegExp.prototype && has(readSource, value)) return 'regexp';
  return isPromise(value) || isWeak(value) ? 'never' : 'other';
}
