import {
  append,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  isArray,
  isDate,
  isEnumerable,
  isError,
  isMap,
  isPromise,
  isRegExp,
  isSet,
  mapForEach,
  ownKeys,
  regExpSource,
  setForEach,
  slice,
  stringifyJson,
  symbolText,
  toIsoString,
  toNumber,
  toText,
  trunc,
} from './intrinsics.ts';

/** Formatting stops here: a line is cut at 8 KB anyway, and a script must not spend its memory on a log line. */
const maxChars = 10_000;
const maxDepth = 4;
const maxMembers = 100;

interface Writer {
  text: string;
  /** The objects that are open, to see a cycle. */
  open: unknown[];
  depth: number;
}

/** The text of a console call: printf directives of the first argument, then everything else, separated by spaces. */
export function formatArguments(values: unknown[]): string {
  let text = '';
  let next = 0;
  if (typeof values[0] === 'string') {
    next = 1;
    const format = values[0];
    if (values.length === 1) return format;
    let from = 0;
    for (let i = 0; i < format.length - 1 && text.length < maxChars; i++) {
      if (format[i] !== '%') continue;
      const directive = format[i + 1] as string;
      if (directive === '%') {
        text += slice(format, from, i + 1);
      } else {
        const formatted = next < values.length ? formatDirective(directive, values[next]) : undefined;
        if (formatted === undefined) continue;
        text += slice(format, from, i) + formatted;
        next++;
      }
      i++;
      from = i + 1;
    }
    text += slice(format, from);
  }
  for (; next < values.length && text.length < maxChars; next++) {
    if (next > 0) text += ' ';
    const value = values[next];
    text += typeof value === 'string' ? value : inspect(value);
  }
  return text;
}

function formatDirective(directive: string, value: unknown): string | undefined {
  if (directive === 's') return typeof value === 'string' ? value : inspect(value);
  if (directive === 'd' || directive === 'i' || directive === 'f') {
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value === 'object' || typeof value === 'symbol') return 'NaN';
    const number = toNumber(value);
    return toText(directive === 'i' ? trunc(number) : number);
  }
  if (directive === 'o' || directive === 'O' || directive === 'j') return inspect(value);
  return directive === 'c' ? '' : undefined;
}

/** The value as a person wants to read it. Getters are not run; a Proxy's traps may be, and cost the script's time. */
export function inspect(value: unknown): string {
  const writer: Writer = { text: '', open: [], depth: 0 };
  try {
    write(writer, value);
  } catch {
    writer.text += '[value that cannot be read]';
  }
  return writer.text;
}

function write(writer: Writer, value: unknown): void {
  switch (typeof value) {
    case 'string':
      writer.text += stringifyJson(value.length > maxChars ? slice(value, 0, maxChars) : value);
      return;
    case 'bigint':
      writer.text += `${value}n`;
      return;
    case 'symbol':
      writer.text += symbolText(value);
      return;
    case 'function':
      writer.text += `[Function: ${functionName(value) || '(anonymous)'}]`;
      return;
    case 'object':
      if (value === null) writer.text += 'null';
      else writeObject(writer, value);
      return;
    default:
      writer.text += toText(value);
  }
}

function writeObject(writer: Writer, value: object): void {
  for (let i = 0; i < writer.depth; i++) {
    if (writer.open[i] === value) {
      writer.text += '[Circular]';
      return;
    }
  }
  if (isError(value)) {
    writer.text += errorText(value as Error);
    return;
  }
  if (isDate(value)) {
    writer.text += dateText(value as Date);
    return;
  }
  if (isRegExp(value)) {
    writer.text += regExpSource(value);
    return;
  }
  if (writer.depth >= maxDepth) {
    writer.text += isArray(value) ? '[Array]' : '[Object]';
    return;
  }
  if (writer.depth < writer.open.length) writer.open[writer.depth] = value;
  else append(writer.open, value);
  writer.depth++;
  const tag = constructorName(value);
  if (isArray(value)) writeArray(writer, value);
  else if (isMap(value)) writeMap(writer, value);
  else if (isSet(value)) writeSet(writer, value);
  else if (isPromise(value)) writer.text += 'Promise {}';
  else writeMembers(writer, value, tag === 'Object' || tag === '' ? '' : `${tag} `);
  writer.depth--;
}

function writeArray(writer: Writer, value: unknown[]): void {
  if (value.length === 0) {
    writer.text += '[]';
    return;
  }
  writer.text += '[ ';
  for (let i = 0; i < value.length; i++) {
    if (i > 0) writer.text += ', ';
    if (full(writer, i)) break;
    write(writer, value[i]);
  }
  writer.text += ' ]';
}

function writeMap(writer: Writer, value: object): void {
  let count = 0;
  writer.text += 'Map {';
  mapForEach(value, (member, key) => {
    if (count > maxMembers || writer.text.length > maxChars) return;
    writer.text += count > 0 ? ', ' : ' ';
    if (full(writer, count++)) return;
    write(writer, key);
    writer.text += ' => ';
    write(writer, member);
  });
  writer.text += count > 0 ? ' }' : '}';
}

function writeSet(writer: Writer, value: object): void {
  let count = 0;
  writer.text += 'Set {';
  setForEach(value, (member) => {
    if (count > maxMembers || writer.text.length > maxChars) return;
    writer.text += count > 0 ? ', ' : ' ';
    if (!full(writer, count++)) write(writer, member);
  });
  writer.text += count > 0 ? ' }' : '}';
}

function writeMembers(writer: Writer, value: object, tag: string): void {
  writer.text += `${tag}{`;
  const keys = ownKeys(value);
  let count = 0;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as PropertyKey;
    if (!isEnumerable(value, key)) continue;
    writer.text += count > 0 ? ', ' : ' ';
    if (full(writer, count++)) break;
    writer.text += typeof key === 'symbol' ? `[${symbolText(key)}]: ` : `${toText(key)}: `;
    const descriptor = getOwnPropertyDescriptor(value, key);
    if (descriptor === undefined) writer.text += 'undefined';
    else if (descriptor.get !== undefined) writer.text += '[Getter]';
    else if (descriptor.set !== undefined) writer.text += '[Setter]';
    else write(writer, descriptor.value);
  }
  writer.text += count > 0 ? ' }' : '}';
}

function full(writer: Writer, count: number): boolean {
  if (count < maxMembers && writer.text.length < maxChars) return false;
  writer.text += '...';
  return true;
}

function errorText(error: Error): string {
  const { stack, name, message } = error;
  return typeof stack === 'string' && stack !== '' ? stack : `${toText(name)}: ${toText(message)}`;
}

function dateText(date: Date): string {
  try {
    return toIsoString(date);
  } catch {
    return 'Invalid Date';
  }
}

function functionName(value: object): string {
  const name: unknown = getOwnPropertyDescriptor(value, 'name')?.value;
  return typeof name === 'string' ? name : '';
}

function constructorName(value: object): string {
  const prototype = getPrototypeOf(value);
  if (prototype === null) return '[Object: null prototype]';
  const maker: unknown = getOwnPropertyDescriptor(prototype, 'constructor')?.value;
  return typeof maker === 'function' ? functionName(maker) : '';
}
