import type { LogLevel } from '../../src/sandbox/protocol.ts';
import { bundle } from '../bundles.ts';
import {
  append,
  create,
  defineProperty,
  IntrinsicMap,
  indexOf,
  mapDelete,
  mapGet,
  mapSet,
  now,
  own,
  ownKeys,
  repeat,
  replaceAll,
  slice,
  toStringTag,
  toText,
} from '../intrinsics.ts';
import { log } from '../log.ts';
import { membersAsNative } from '../native.ts';
import { stackHere } from '../stack.ts';

const maxIndent = 40;
const shownFrames = 30;

/** All of the Console Standard, with Node's formats. Each call is one log line, of the level that the method has. */
export function makeConsole(): object {
  let indent = '';
  const counts = new IntrinsicMap<unknown, unknown>();
  const timers = new IntrinsicMap<unknown, unknown>();

  const write = (level: LogLevel, text: string) =>
    log(level, indent === '' ? text : `${indent}${replaceAll(text, '\n', `\n${indent}`)}`);
  const label = (value: unknown) => (value === undefined ? 'default' : toText(value));
  const group = (values: unknown[]) => {
    if (values.length > 0) write('info', textOf(values));
    if (indent.length < maxIndent) indent += repeat(' ', 2);
  };
  /** The text of a running timer, or a warning that there is none. */
  const elapsed = (name: string, method: string) => {
    const start = mapGet(timers, name) as number | undefined;
    if (start !== undefined) return `${name}: ${now() - start}ms`;
    write('warn', `No such label '${name}' for console.${method}()`);
    return undefined;
  };
  const show = (value: unknown) => write('info', bundle('inspect').inspect(value));

  const methods = {
    assert(condition: unknown = false, ...values: unknown[]): void {
      if (condition) return;
      if (values.length === 0) write('error', 'Assertion failed');
      else if (typeof values[0] === 'string') {
        values[0] = `Assertion failed: ${values[0]}`;
        write('error', textOf(values));
      } else write('error', `Assertion failed ${textOf(values)}`);
    },
    clear(): void {
      // A log cannot be cleared; only the indentation is.
      indent = '';
    },
    count(name: unknown = undefined): void {
      const key = label(name);
      const count = ((mapGet(counts, key) as number | undefined) ?? 0) + 1;
      mapSet(counts, key, count);
      write('info', `${key}: ${count}`);
    },
    countReset(name: unknown = undefined): void {
      const key = label(name);
      if (!mapDelete(counts, key)) write('warn', `Count for '${key}' does not exist`);
    },
    debug: (...values: unknown[]): void => write('debug', textOf(values)),
    dir: (value: unknown = undefined): void => show(value),
    dirxml: (...values: unknown[]): void => write('info', textOf(values)),
    error: (...values: unknown[]): void => write('error', textOf(values)),
    group: (...values: unknown[]): void => group(values),
    groupCollapsed: (...values: unknown[]): void => group(values),
    groupEnd(): void {
      indent = slice(indent, 2);
    },
    info: (...values: unknown[]): void => write('info', textOf(values)),
    log: (...values: unknown[]): void => write('info', textOf(values)),
    table(data: unknown = undefined, columns: unknown = undefined): void {
      const { tableOf, inspect } = bundle('inspect');
      write('info', tableOf(data, columns) ?? (typeof data === 'string' ? data : inspect(data)));
    },
    time(name: unknown = undefined): void {
      const key = label(name);
      if (mapGet(timers, key) === undefined) mapSet(timers, key, now());
      else write('warn', `Label '${key}' already exists for console.time()`);
    },
    timeEnd(name: unknown = undefined): void {
      const text = elapsed(label(name), 'timeEnd');
      if (text !== undefined) write('info', text);
      mapDelete(timers, label(name));
    },
    timeLog(name: unknown = undefined, ...values: unknown[]): void {
      const text = elapsed(label(name), 'timeLog');
      if (text === undefined) return;
      const line: unknown[] = [];
      append(line, text);
      for (let i = 0; i < values.length; i++) append(line, values[i]);
      write('info', textOf(line));
    },
    trace(...values: unknown[]): void {
      write('debug', `Trace${values.length === 0 ? '' : `: ${textOf(values)}`}${scriptFrames(stackHere(shownFrames))}`);
    },
    warn: (...values: unknown[]): void => write('warn', textOf(values)),
  };

  // The specification asks for an empty object between the namespace and Object.prototype.
  const namespace = create({}) as object;
  const names = ownKeys(methods) as (keyof typeof methods)[];
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as keyof typeof methods;
    defineProperty(namespace, name, own(methods[name]));
  }
  const tag = { __proto__: null, value: 'console', configurable: true } as PropertyDescriptor;
  defineProperty(namespace, toStringTag, tag);
  return membersAsNative(namespace);
}

/** Texts alone need nothing of what formats values, which is then not loaded. */
function textOf(values: unknown[]): string {
  let text = '';
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    const plain = typeof value === 'string' ? value : simple(value);
    if (plain === undefined || (i === 0 && values.length > 1 && indexOf(plain, '%') !== -1)) {
      return bundle('inspect').formatArguments(values);
    }
    text += i === 0 ? plain : ` ${plain}`;
  }
  return text;
}

function simple(value: unknown): string | undefined {
  const type = typeof value;
  if (type === 'number') return value === 0 ? undefined : `${value as number}`;
  return type === 'boolean' || type === 'undefined' || value === null ? `${value as boolean}` : undefined;
}

/** The frames of a stack, without those of this script. */
function scriptFrames(stack: string): string {
  let frames = '';
  for (let at = indexOf(stack, '\n'); at !== -1; ) {
    const next = indexOf(stack, '\n', at + 1);
    const line = slice(stack, at, next === -1 ? stack.length : next);
    if (indexOf(line, 'jobcell:') === -1 && indexOf(line, 'isolated-vm') === -1) frames += line;
    at = next;
  }
  return frames;
}
