import { originalPositionFor, TraceMap } from '@jridgewell/trace-mapping';
import type { ScriptError } from '../protocol.ts';

/** Frames that are not the script's: our globals, and what isolated-vm or Node put below them (rule S3). */
const foreign = /\(?(?:jobcell:|node:|file:|<isolated-vm)/;
const boundary = '(<isolated-vm boundary>)';

/** The stack without frames of the host; everything from isolated-vm's boundary on is the cell's own. */
export function cleanStack(stack: string): string {
  const end = stack.indexOf(boundary);
  const inside = end === -1 ? stack : stack.slice(0, stack.lastIndexOf('\n', end));
  return inside
    .split('\n')
    .filter((line) => !(/^\s+at /.test(line) && foreign.test(line)))
    .join('\n');
}

/** `file.js:3:9` in the frames of `fileName`, as in `at main (file.js:3:9)` and `at file.js:3:9`. */
const positionsOf = (fileName: string) =>
  new RegExp(`(^|[\\s(])${RegExp.escape(fileName)}:(\\d+):(\\d+)(?=\\)?$|[),\\s])`, 'g');

/** Line and column, from 1, of the first frame of `fileName`. */
export function firstPosition(stack: string, fileName: string): { line: number; column: number } | null {
  const found = positionsOf(fileName).exec(stack.replaceAll('\n', '\n '));
  return found === null ? null : { line: Number(found[2]), column: Number(found[3]) };
}

/** A parsed source map, or null where there is none or it is broken: then stacks stay as V8 wrote them. */
export function parseSourceMap(text: string | null): TraceMap | null {
  if (text === null) return null;
  try {
    return new TraceMap(text);
  } catch {
    return null;
  }
}

/** The JSON text of a `//# sourceMappingURL=data:` comment at the script's end. */
export function inlineSourceMap(source: string): string | null {
  const mark = '//# sourceMappingURL=';
  const at = source.lastIndexOf(mark);
  if (at === -1) return null;
  const url = source.slice(at + mark.length).split(/\s/, 1)[0] ?? '';
  const found = /^data:application\/json;(?:charset=[^;,]+;)?(base64,)?/.exec(url);
  if (found === null) return null;
  const data = url.slice(found[0].length).replace(/^,/, '');
  try {
    return found[1] === undefined ? decodeURIComponent(data) : Buffer.from(data, 'base64').toString('utf8');
  } catch {
    return null;
  }
}

/** The stack with every frame of `fileName` at its original place. */
export function mapStack(stack: string, fileName: string, map: TraceMap): string {
  try {
    return stack.replace(/^.*$/gm, (line) =>
      /^\s+at /.test(line)
        ? line.replace(positionsOf(fileName), (found, before, l, c) => original(map, found, before, l, c))
        : line,
    );
  } catch {
    return stack;
  }
}

function original(map: TraceMap, found: string, before: string, line: string, column: string): string {
  // V8 counts columns from 1, source maps from 0.
  const position = originalPositionFor(map, { line: Number(line), column: Number(column) - 1 });
  if (position.source === null) return found;
  return `${before}${position.source}:${position.line}:${position.column + 1}`;
}

/** An error that isolated-vm brought out of an isolate: a syntax error, or what the top level of a script threw. */
export function describeIsolateError(thrown: unknown, limits: { message: number; stack: number }): ScriptError {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown).slice(0, limits.message), stack: '' };
  const name = String(thrown.name).slice(0, 256);
  const message = storable(String(thrown.message), limits.message);
  const stack = cleanStack(storable(String(thrown.stack ?? ''), limits.stack));
  return { name, message, stack };
}

function storable(text: string, max: number): string {
  return text.slice(0, max).toWellFormed().replaceAll('\0', '\ufffd');
}

/** `Unexpected token '}' [file.js:2:10]`, as isolated-vm words a syntax error, taken apart. */
export function syntaxErrorPlace(message: string): { message: string; line: number; column: number } | null {
  const found = /^(.*) \[[^\n]*:(\d+):(\d+)\]$/s.exec(message);
  if (found === null) return null;
  return { message: found[1] as string, line: Number(found[2]), column: Number(found[3]) };
}
