import { originalPositionFor, TraceMap } from '@jridgewell/trace-mapping';

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

/**
 * The stack with every frame of `fileName` at its original place. What a source map says is the script's own text like
 * any other: each line is bounded here, the whole where it leaves (`storable`).
 */
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

/** Characters of a source's name that a frame shows; the end of a path tells most. */
const sourceChars = 512;

function original(map: TraceMap, found: string, before: string, line: string, column: string): string {
  // V8 counts columns from 1, source maps from 0.
  const position = originalPositionFor(map, { line: Number(line), column: Number(column) - 1 });
  if (position.source === null) return found;
  return `${before}${sourceName(position.source)}:${position.line}:${position.column + 1}`;
}

/** One line, so that no name of a source can pass for further frames. */
function sourceName(source: string): string {
  return source.slice(-sourceChars).replace(/[\p{Cc}\u2028\u2029]/gu, '\ufffd');
}

/** An error that isolated-vm brought out of an isolate: a syntax error, or what the top level of a script threw. */
export function describeIsolateError(thrown: unknown): { name: string; message: string; stack: string } {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown), stack: '' };
  return { name: String(thrown.name), message: String(thrown.message), stack: String(thrown.stack ?? '') };
}

const cutMark = ' ... (cut)';

/** The text without what PostgreSQL refuses (NUL, lone surrogates), in at most `maxBytes` of UTF-8 (D33). */
export function storable(text: string, maxBytes: number): string {
  const clean = text.slice(0, maxBytes).toWellFormed().replaceAll('\0', '\ufffd');
  if (text.length <= maxBytes && Buffer.byteLength(clean) <= maxBytes) return clean;
  const bytes = Buffer.alloc(maxBytes - cutMark.length);
  // `write` writes whole characters only.
  return bytes.toString('utf8', 0, bytes.write(clean)) + cutMark;
}

/** `Unexpected token '}' [file.js:2:10]`, as isolated-vm words a syntax error, taken apart. */
export function syntaxErrorPlace(message: string): { message: string; line: number; column: number } | null {
  const found = /^(.*) \[[^\n]*:(\d+):(\d+)\]$/s.exec(message);
  if (found === null) return null;
  return { message: found[1] as string, line: Number(found[2]), column: Number(found[3]) };
}
