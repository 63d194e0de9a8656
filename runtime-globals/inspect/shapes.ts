import { platformOf } from '../interface.ts';
import {
  append,
  apply,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  IntrinsicUint8Array,
  indexOf,
  isArray,
  isError,
  isFiniteNumber,
  isPromise,
  isWeak,
  mapForEach,
  min,
  objectOf,
  ownKeys,
  regExpExec,
  repeat,
  replaceAll,
  setForEach,
  slice,
  toHex,
  toIsoString,
  typedArrayLength,
  typedArrayName,
} from '../intrinsics.ts';
import {
  kindOf,
  primitiveIn,
  readBufferSize,
  readDate,
  readDetached,
  readFlags,
  readMapSize,
  readSetSize,
  readSource,
} from '../slots.ts';
import { constructorName, functionText, prefix, primitive, tagOf } from './names.ts';
import { inner, maxChars, maxEntries, member, more, named, type Writer } from './writer.ts';

/** How an object is shown: its brackets, what stands for it where it has no entries, and entries that are no properties. */
export interface Shape {
  base?: string;
  open: string;
  close: string;
  list?: boolean;
  members?: (entries: string[]) => void;
  /** Properties that are shown otherwise. */
  without?: (key: string | symbol) => boolean;
  /** It has so many elements that its properties are not looked at: the list of their names alone would be as large. */
  many?: boolean;
}

/** A text alone stands for what is never opened. */
export function shapeOf(writer: Writer, value: object): Shape | string {
  if (typeof value === 'function') {
    return { base: functionText(value), open: '{', close: '}' };
  }
  if (isArray(value)) return listShape(writer, value);
  const prototype = getPrototypeOf(value) as object | null;
  if (prototype === objectOf.prototype) return brackets(tagOf(value) === '' ? '' : prefix(value, 'Object', ''));
  if (isError(value)) return errorShape(writer, value as Error);
  if (isPromise(value)) return { ...brackets(prefix(value, 'Promise', '')), members: known('<state unknown>') };
  if (isWeak(value)) return { ...brackets(prefix(value, 'WeakMap', '')), members: known('<items unknown>') };
  switch (kindOf(value)) {
    case 'date': {
      const time = readDate(value);
      return { base: isFiniteNumber(time) ? toIsoString(value as Date) : 'Invalid Date', open: '{', close: '}' };
    }
    case 'regexp':
      return { base: `/${readSource(value)}/${readFlags(value)}`, open: '{', close: '}' };
    case 'map':
      return { ...brackets(prefix(value, 'Map', `(${readMapSize(value)})`)), members: mapMembers(writer, value) };
    case 'set':
      return { ...brackets(prefix(value, 'Set', `(${readSetSize(value)})`)), members: setMembers(writer, value) };
    case 'buffer':
      return { ...brackets(prefix(value, 'ArrayBuffer', '')), members: bufferMembers(value as ArrayBuffer) };
    case 'view':
      return typedArrayName(value) === undefined ? brackets(prefix(value, 'DataView', '')) : typedShape(writer, value);
    default: {
      const wrapped = primitiveIn(value);
      if (wrapped === undefined) return objectShape(writer, value);
      return wrapperShape(value, wrapped.primitive);
    }
  }
}

const brackets = (before: string): Shape => ({ open: `${before}{`, close: '}' });

/** Objects of the platform keep everything behind getters, so those that give simple values are shown. */
function objectShape(writer: Writer, value: object): Shape {
  const shape = brackets(prefix(value, 'Object', ''));
  if (platformOf(value) === undefined) return shape;
  shape.members = (entries) => platformMembers(writer, value, entries);
  // Where a library keeps its state.
  shape.without = (key) => typeof key === 'symbol';
  return shape;
}

/** Their getters make something at the first look. */
const costly = { __proto__: null, body: 1, signal: 1, subtle: 1 } as unknown as Record<string, 1 | undefined>;

function platformMembers(writer: Writer, value: object, entries: string[]): void {
  for (
    let at = getPrototypeOf(value) as object;
    at !== objectOf.prototype && at !== null;
    at = getPrototypeOf(at) as object
  ) {
    const keys = ownKeys(at);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as string;
      const { get, value: method } = getOwnPropertyDescriptor(at, key) as PropertyDescriptor;
      if (key === 'forEach' && typeof method === 'function') {
        apply(method, value, [
          (each: unknown, name: unknown) => {
            if (entries.length < maxEntries) append(entries, `${writer.write(name)} => ${writer.write(each)}`);
          },
        ]);
      }
      if (typeof key !== 'string' || get === undefined || costly[key] !== undefined) continue;
      const found: unknown = apply(get, value, []);
      if (typeof found !== 'object' && typeof found !== 'function') append(entries, `${key}: ${writer.write(found)}`);
    }
  }
}

const known = (text: string) => (entries: string[]) => append(entries, text);

function wrapperShape(value: object, inner: unknown): Shape {
  const type = typeof inner;
  const name = `${type[0] === 'b' ? (type === 'bigint' ? 'BigInt' : 'Boolean') : type === 'number' ? 'Number' : type === 'string' ? 'String' : 'Symbol'}`;
  const made = constructorName(value);
  const shape: Shape = {
    base: `[${name}${made === name || made === null ? '' : ` (${made})`}: ${primitive(inner)}]`,
    open: '{',
    close: '}',
  };
  if (type === 'string') shape.many = (inner as string).length > fewElements;
  if (type === 'string') shape.without = (key) => typeof key === 'string' && (key === 'length' || isIndex(key));
  return shape;
}

const indexPattern = /^(?:0|[1-9][0-9]*)$/;
const isIndex = (key: string) => regExpExec(indexPattern, key) !== null;

function listShape(writer: Writer, value: unknown[]): Shape {
  const name = constructorName(value);
  const before = name === 'Array' ? '' : prefix(value, 'Array', `(${value.length})`);
  return {
    open: `${before}[`,
    close: ']',
    list: true,
    many: value.length > fewElements,
    members(entries) {
      let holes = 0;
      const closeHoles = () => {
        if (holes > 0) append(entries, `<${holes} empty item${holes === 1 ? '' : 's'}>`);
        holes = 0;
      };
      let shown = 0;
      let i = 0;
      for (; i < value.length && shown < maxEntries && writer.chars < maxChars; i++) {
        if (getOwnPropertyDescriptor(value, i) === undefined) {
          // A long stretch of nothing is not counted one by one.
          if (holes === 0) shown++;
          const next = nextIndex(value, i);
          holes += next - i;
          i = next - 1;
          continue;
        }
        closeHoles();
        append(entries, member(writer, value, i));
        shown++;
      }
      closeHoles();
      more(entries, value.length - i, 'item');
    },
    without: (key) => typeof key === 'string' && (key === 'length' || isIndex(key)),
  };
}

/** Elements of which all properties are still looked at. */
const fewElements = 1_000;

/** The first index at or after one that the list has. A long stretch of nothing is taken to go on to its end. */
function nextIndex(value: unknown[], from: number): number {
  const last = min(value.length, from + 10 * fewElements);
  for (let i = from; i < last; i++) if (getOwnPropertyDescriptor(value, i) !== undefined) return i;
  return value.length;
}

function typedShape(writer: Writer, value: object): Shape {
  const length = typedArrayLength(value);
  const list = value as unknown as ArrayLike<number | bigint>;
  return {
    open: `${prefixTyped(value, length)}[`,
    close: ']',
    list: true,
    many: length > fewElements,
    members(entries) {
      const count = min(length, maxEntries);
      for (let i = 0; i < count; i++) append(entries, writer.write(list[i]));
      more(entries, length - count, 'item');
    },
    without: (key) => typeof key === 'string' && isIndex(key),
  };
}

function prefixTyped(value: object, length: number): string {
  const name = constructorName(value);
  return name === null ? `[${typedArrayName(value)}(${length}): null prototype] ` : `${name}(${length}) `;
}

function bufferMembers(value: ArrayBuffer): (entries: string[]) => void {
  return (entries) => {
    if (readDetached(value)) {
      append(entries, '(detached)');
      append(entries, '[byteLength]: 0');
      return;
    }
    const size = readBufferSize(value);
    const hex = toHex(new IntrinsicUint8Array(value, 0, min(size, 50)));
    let text = '';
    for (let i = 0; i < hex.length; i += 2) text += `${i === 0 ? '' : ' '}${hex[i]}${hex[i + 1]}`;
    if (size > 50) text += ` ... ${size - 50} more byte${size === 51 ? '' : 's'}`;
    append(entries, `[Uint8Contents]: <${text}>`);
    append(entries, `[byteLength]: ${size}`);
  };
}

function mapMembers(writer: Writer, value: object): (entries: string[]) => void {
  return (entries) => {
    let count = 0;
    inner(writer, () =>
      mapForEach(value, (each, key) => {
        if (count++ >= maxEntries || writer.chars > maxChars) return;
        append(entries, `${writer.write(key)} => ${writer.write(each)}`);
      }),
    );
    more(entries, count - entries.length, 'item');
  };
}

function setMembers(writer: Writer, value: object): (entries: string[]) => void {
  return (entries) => {
    let count = 0;
    inner(writer, () =>
      setForEach(value, (each) => {
        if (count++ >= maxEntries || writer.chars > maxChars) return;
        append(entries, writer.write(each));
      }),
    );
    more(entries, count - entries.length, 'item');
  };
}

/** Its stack, or its name and message where it has none, and what else there is of it in brackets. */
function errorShape(writer: Writer, error: Error): Shape {
  const own = (name: string) => getOwnPropertyDescriptor(error, name);
  let text = '';
  try {
    const { stack, message } = error;
    text =
      typeof stack === 'string' && stack !== '' ? withName(error, stack) : `[${constructorName(error)}: ${message}]`;
  } catch {
    text = `[${constructorName(error) ?? 'Error'}]`;
  }
  if (writer.indentation > 0) text = replaceAll(text, '\n', `\n${repeat(' ', writer.indentation)}`);
  return {
    base: text,
    open: '{',
    close: '}',
    members(entries) {
      const cause = own('cause');
      if (cause !== undefined && 'value' in cause && cause.enumerable === false) {
        append(entries, named(writer, '[cause]', cause.value));
      }
      const errors = own('errors');
      if (errors !== undefined && 'value' in errors && errors.enumerable === false) {
        append(entries, named(writer, '[errors]', errors.value));
      }
    },
    without: (key) => key === 'stack' || key === 'message',
  };
}

/** The stack begins with the name that the error had when it was made; a subclass's own name is shown, as Node does. */
function withName(error: Error, stack: string): string {
  const name = constructorName(error);
  if (name === null || indexOf(stack, name) !== -1 || slice(stack, 0, 5) !== 'Error') return stack;
  return `${name}${slice(stack, 5)}`;
}
