import { parse } from 'es-module-lexer/js';
import { type MainKind, mainProblems } from '../boundary.ts';
import type { ScriptFormat } from '../protocol.ts';
import type { ScriptCheck } from '../sandbox.ts';
import type { CellBodyEnd } from '../wire.ts';
import { firstPosition, syntaxErrorPlace } from './stack.ts';

/** The file name of a script that has none yet. */
export const checkedFileName = 'script.js';
export const checkRefusal = 'host calls are refused while a script is evaluated; call it inside main.';

/** How a script has to be compiled, or why it cannot be run. */
export function formatOf(source: string): ScriptFormat | ScriptCheck {
  let imports: ReturnType<typeof parse>[0];
  let hasModuleSyntax: boolean;
  try {
    // To the lexer a byte order mark is no white space, as it is to the language.
    [imports, , , hasModuleSyntax] = parse(source.startsWith('\uFEFF') ? ` ${source.slice(1)}` : source);
  } catch {
    // V8 words the same syntax error better, and both formats fail alike.
    return 'module';
  }
  for (const found of imports) {
    if (found.type === 'import-meta') continue;
    const { line, column } = positionAt(source, found.importStart);
    const what = found.specifier === undefined ? 'a module' : `'${found.specifier}'`;
    return {
      ok: false,
      message: `The script imports ${what} (line ${line}, column ${column}), but a script runs alone: bundle it into one file.`,
      line,
      column,
    };
  }
  return hasModuleSyntax ? 'module' : 'script';
}

function positionAt(source: string, offset: number): { line: number; column: number } {
  const before = source.slice(0, offset);
  return { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') };
}

/** A module that awaits is not waited for, so its exports are looked at too early. */
const hintFor = (message: string) =>
  /before initialization/.test(message) ? ' If the script awaits at its top level, await inside main instead.' : '';

/** What the run of a check says about the script. */
export function checkResult(format: ScriptFormat, end: CellBodyEnd): ScriptCheck {
  if (end.type === 'returned') {
    const kind = end.result as MainKind;
    return kind === 'function'
      ? { ok: true, format }
      : { ok: false, message: mainProblems[kind], line: null, column: null };
  }
  const { error } = end;
  if (error.code === 'INVALID_SCRIPT') {
    const place = syntaxErrorPlace(error.message);
    if (place === null) return { ok: false, message: `${error.name}: ${error.message}.`, line: null, column: null };
    const { line, column } = place;
    return {
      ok: false,
      message: `The script does not compile: ${error.name}: ${place.message} (line ${line}, column ${column}).`,
      line,
      column,
    };
  }
  const place = firstPosition(error.stack, checkedFileName);
  const where = place === null ? '' : ` (line ${place.line}, column ${place.column})`;
  const message =
    error.kind === 'USER_RUNTIME'
      ? `The top level of the script threw ${error.name}: ${error.message}${where}.${hintFor(error.message)}`
      : `The script could not be evaluated: ${error.message}.`;
  return { ok: false, message, line: place?.line ?? null, column: place?.column ?? null };
}
