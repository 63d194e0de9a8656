import { platformOf } from '../interface.ts';
import {
  append,
  apply,
  charCodeAt,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  IntrinsicMap,
  IntrinsicUint8Array,
  indexOf,
  isArray,
  isError,
  isFiniteNumber,
  isPromise,
  isWeak,
  mapForEach,
  mapGet,
  mapSet,
  min,
  objectOf,
  ownKeys,
  padStart,
  regExpExec,
  repeat,
  replaceAll,
  setForEach,
  slice,
  symbolText,
  toHex,
  toIsoString,
  toRadix,
  toStringTag,
  toText,
  toUpperCase,
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
import { layOut } from './layout.ts';

/** A line is cut at 8 KB anyway, and a script must not spend its memory on one. */
const maxChars = 16_384;
const maxEntries = 100;
const maxTextChars = 10_000;

/** Levels of an object that are shown. */
const defaultDepth = 2;

interface Writer {
  depth: number;
  /** The objects that are open, outermost first. */
  open: object[];
  /** Objects that something inside of them refers back to, by number. */
  circular: Map<unknown, unknown>;
  circles: number;
  indentation: number;
  /** The level of the object that was begun last. */
  last: number;
  chars: number;
}

/** The value as Node's console shows it. Getters are not run; a Proxy's traps may be, and cost the script's time. */
export function inspect(value: unknown, depth: number = defaultDepth): string {
  const writer: Writer = {
    depth,
    open: [],
    circular: new IntrinsicMap(),
    circles: 0,
    indentation: 0,
    last: 0,
    chars: 0,
  };
  try {
    return write(writer, value);
  } catch {
    return '[value that cannot be read]';
  }
}

function write(writer: Writer, value: unknown): string {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  const text = isObject ? writeObject(writer, value as object) : primitive(value);
  writer.chars += text.length;
  return text;
}

/** A value that is no object, as it stands in one. */
export function primitive(value: unknown): string {
  switch (typeof value) {
    case 'string': {
      const cut = value.length > maxTextChars;
      const text = quoted(cut ? slice(value, 0, maxTextChars) : value);
      if (!cut) return text;
      const more = value.length - maxTextChars;
      return `${text}... ${more} more character${more === 1 ? '' : 's'}`;
    }
    case 'number':
      return value === 0 && 1 / value < 0 ? '-0' : toText(value);
    case 'bigint':
      return `${value}n`;
    case 'symbol':
      return symbolText(value);
    default:
      return toText(value);
  }
}

/** In single quotes, or in those that need no escapes. */
function quoted(text: string): string {
  let mark = "'";
  if (indexOf(text, "'") !== -1) {
    if (indexOf(text, '"') === -1) mark = '"';
    else if (indexOf(text, '`') === -1 && indexOf(text, '${') === -1) mark = '`';
  }
  if (regExpExec(plainText, text) !== null && indexOf(text, mark) === -1) return `${mark}${text}${mark}`;
  let inner = '';
  for (let i = 0; i < text.length; i++) {
    const character = text[i] as string;
    if (character === mark || character === '\\') inner += `\\${character}`;
    else inner += regExpExec(plainText, character) === null ? escapeOf(charCodeAt(text, i), text, i) : character;
  }
  return `${mark}${inner}${mark}`;
}

/** What needs no escape: no control character, no backslash and no surrogate. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const plainText = /^[^\0-\x1f\x7f-\x9f\\\ud800-\udfff]*$/;
const short = { __proto__: null, 8: '\\b', 9: '\\t', 10: '\\n', 12: '\\f', 13: '\\r' } as unknown as Record<
  number,
  string
>;

function escapeOf(code: number, text: string, at: number): string {
  if (code > 0x9f) {
    const partner = charCodeAt(text, code < 0xdc00 ? at + 1 : at - 1);
    const paired = code < 0xdc00 ? partner >= 0xdc00 && partner <= 0xdfff : partner >= 0xd800 && partner <= 0xdbff;
    return paired ? (text[at] as string) : `\\u${toUpperCase(toRadix(code, 16))}`;
  }
  return short[code] ?? `\\x${padStart(toUpperCase(toRadix(code, 16)), 2, '0')}`;
}

function functionText(value: object): string {
  const name = functionName(value);
  // Of all functions, only a class has a prototype that cannot be replaced.
  if (getOwnPropertyDescriptor(value, 'prototype')?.writable === false) {
    const parent = getPrototypeOf(value) as object | null;
    const base = parent === null ? '' : functionName(parent);
    return `[class ${name === '' ? '(anonymous)' : name}${base === '' ? '' : ` extends ${base}`}]`;
  }
  const kind = constructorName(value) ?? 'Function';
  return name === '' ? `[${kind} (anonymous)]` : `[${kind}: ${name}]`;
}

function functionName(value: object): string {
  const name: unknown = getOwnPropertyDescriptor(value, 'name')?.value;
  return typeof name === 'string' ? name : '';
}

function constructorName(value: object): string | null {
  for (let at: object | null = value; at !== null; at = getPrototypeOf(at) as object | null) {
    const maker: unknown = getOwnPropertyDescriptor(at, 'constructor')?.value;
    if (typeof maker === 'function' && functionName(maker) !== '') return functionName(maker);
  }
  return null;
}

/** `Map(2) `, `Point `, `[Object: null prototype] `: what stands before the brackets. */
function prefix(value: object, fallback: string, size: string): string {
  const name = constructorName(value);
  const tag = tagOf(value);
  const base = name === null ? `[${fallback}${size}: null prototype] ` : `${name}${size} `;
  return tag !== '' && tag !== name ? `${base}[${tag}] ` : base;
}

function tagOf(value: object): string {
  // As a property of its own it is shown like any other.
  if (getOwnPropertyDescriptor(value, toStringTag)?.enumerable === true) return '';
  for (let at: object | null = value; at !== null; at = getPrototypeOf(at) as object | null) {
    const descriptor = getOwnPropertyDescriptor(at, toStringTag);
    if (descriptor === undefined) continue;
    return typeof descriptor.value === 'string' ? descriptor.value : '';
  }
  return '';
}

function writeObject(writer: Writer, value: object): string {
  const { open } = writer;
  for (let i = 0; i < open.length; i++) if (open[i] === value) return circle(writer, value);
  const shape = shapeOf(writer, value);
  if (typeof shape === 'string') return shape;
  const level = open.length;
  if (level > writer.depth) {
    const name = constructorName(value);
    return `[${name === null ? 'Object: null prototype' : isArray(value) && name === 'Array' ? 'Array' : name}]`;
  }
  append(open, value);
  writer.last = level;
  const entries: string[] = [];
  shape.members?.(entries);
  addProperties(writer, value, shape, entries);
  open.length = level;
  const levels = writer.last - level;
  const number = mapGet(writer.circular, value) as number | undefined;
  const reference = number === undefined ? '' : `<ref *${number}> `;
  const { base, open: bracket, close } = shape;
  if (entries.length === 0) return `${reference}${base ?? `${bracket}${close}`}`;
  const begin = `${reference}${base === undefined ? '' : `${base} `}${bracket}`;
  return layOut(entries, begin, close, shape.list === true, { indentation: writer.indentation, levels });
}

function circle(writer: Writer, value: object): string {
  let number = mapGet(writer.circular, value) as number | undefined;
  if (number === undefined) {
    number = ++writer.circles;
    mapSet(writer.circular, value, number);
  }
  return `[Circular *${number}]`;
}

/** How an object is shown: its brackets, what stands for it where it has no entries, and entries that are no properties. */
interface Shape {
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

function shapeOf(writer: Writer, value: object): Shape | string {
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
            if (entries.length < maxEntries) append(entries, `${write(writer, name)} => ${write(writer, each)}`);
          },
        ]);
      }
      if (typeof key !== 'string' || get === undefined || costly[key] !== undefined) continue;
      const found: unknown = apply(get, value, []);
      if (typeof found !== 'object' && typeof found !== 'function') append(entries, `${key}: ${write(writer, found)}`);
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

function more(entries: string[], count: number, noun: string): void {
  if (count > 0) append(entries, `... ${count} more ${noun}${count === 1 ? '' : 's'}`);
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
      for (let i = 0; i < count; i++) append(entries, write(writer, list[i]));
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
        append(entries, `${write(writer, key)} => ${write(writer, each)}`);
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
        append(entries, write(writer, each));
      }),
    );
    more(entries, count - entries.length, 'item');
  };
}

function inner(writer: Writer, work: () => void): void {
  writer.indentation += 2;
  work();
  writer.indentation -= 2;
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

function named(writer: Writer, name: string, value: unknown): string {
  writer.indentation += 2;
  const text = `${name}: ${write(writer, value)}`;
  writer.indentation -= 2;
  return text;
}

function member(writer: Writer, value: object, key: PropertyKey): string {
  writer.indentation += 2;
  const descriptor = getOwnPropertyDescriptor(value, key);
  const text = descriptor === undefined ? 'undefined' : descriptorText(writer, descriptor);
  writer.indentation -= 2;
  return text;
}

function descriptorText(writer: Writer, { get, set, value }: PropertyDescriptor): string {
  if (get !== undefined) return set === undefined ? '[Getter]' : '[Getter/Setter]';
  return set === undefined ? write(writer, value) : '[Setter]';
}

const identifier = /^[a-zA-Z_][a-zA-Z_0-9]*$/;

function addProperties(writer: Writer, value: object, { without, many }: Shape, entries: string[]): void {
  if (many) return;
  const keys = ownKeys(value);
  let shown = 0;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string | symbol;
    if (without?.(key)) continue;
    if (getOwnPropertyDescriptor(value, key)?.enumerable !== true) continue;
    if (shown++ >= maxEntries || writer.chars > maxChars) {
      append(entries, '...');
      return;
    }
    const name = typeof key === 'symbol' ? symbolText(key) : regExpExec(identifier, key) === null ? quoted(key) : key;
    writer.chars += name.length;
    append(entries, `${name}: ${member(writer, value, key)}`);
  }
}
