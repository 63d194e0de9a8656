import {
  append,
  getOwnPropertyDescriptor,
  IntrinsicMap,
  isArray,
  mapGet,
  mapSet,
  ownKeys,
  regExpExec,
  symbolText,
} from '../intrinsics.ts';
import { layOut } from './layout.ts';
import { constructorName, primitive, quoted } from './names.ts';
import { type Shape, shapeOf } from './shapes.ts';
import { maxChars, maxEntries, member, type Writer } from './writer.ts';

/** Levels of an object that are shown. */
const defaultDepth = 2;

/** The value as Node's console shows it. Getters are not run; a Proxy's traps may be, and cost the script's time. */
export function inspect(value: unknown, depth: number = defaultDepth): string {
  const writer: Writer = {
    write: (each) => write(writer, each),
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
