import type { LogLevel } from '../../src/sandbox/protocol.ts';
import { formatArguments, inspect } from '../format.ts';
import { append, IntrinsicMap, mapDelete, mapGet, mapSet, now, repeat, slice, toText } from '../intrinsics.ts';
import { log } from '../log.ts';

/** The console of a browser, without what only makes sense in one. Each call is one log line. */
export function makeConsole() {
  let indent = '';
  const counts = new IntrinsicMap<unknown, unknown>();
  const timers = new IntrinsicMap<unknown, unknown>();

  const write = (level: LogLevel, text: string) => log(level, indent === '' ? text : indent + text);
  const at =
    (level: LogLevel) =>
    (...values: unknown[]) =>
      write(level, formatArguments(values));
  const label = (value: unknown) => (value === undefined ? 'default' : toText(value));
  const group = (...values: unknown[]) => {
    if (values.length > 0) write('info', formatArguments(values));
    if (indent.length < 40) indent += repeat(' ', 2);
  };
  const elapsed = (name: string) => {
    const start = mapGet(timers, name) as number | undefined;
    return start === undefined ? undefined : `${name}: ${now() - start}ms`;
  };

  return {
    debug: at('debug'),
    log: at('info'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    trace: at('debug'),
    dir: (value: unknown) => write('info', inspect(value)),
    table: (value: unknown) => write('info', inspect(value)),
    assert(condition?: unknown, ...values: unknown[]) {
      if (condition) return;
      write('error', values.length === 0 ? 'Assertion failed' : `Assertion failed: ${formatArguments(values)}`);
    },
    count(name?: unknown) {
      const key = label(name);
      const count = ((mapGet(counts, key) as number | undefined) ?? 0) + 1;
      mapSet(counts, key, count);
      write('info', `${key}: ${count}`);
    },
    countReset(name?: unknown) {
      mapDelete(counts, label(name));
    },
    group,
    groupCollapsed: group,
    groupEnd() {
      indent = slice(indent, 2);
    },
    time(name?: unknown) {
      mapSet(timers, label(name), now());
    },
    timeLog(name?: unknown, ...values: unknown[]) {
      const text = elapsed(label(name));
      if (text === undefined) return;
      const line: unknown[] = [];
      append(line, text);
      for (let i = 0; i < values.length; i++) append(line, values[i]);
      write('info', formatArguments(line));
    },
    timeEnd(name?: unknown) {
      const text = elapsed(label(name));
      if (text !== undefined) write('info', text);
      mapDelete(timers, label(name));
    },
  };
}
