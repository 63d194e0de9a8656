import { typeError } from './errors.ts';
import { stringifyJson } from './intrinsics.ts';

/** Longer than any name or key of the platform's grammars; bounds what crosses, and what is shown of it (S4). */
const maxNameLength = 1_024;

/** JSON text of a name, by hand into its place, so that no toJSON of the script's is asked. @throws TypeError */
export function quoted(what: string, value: unknown): string {
  if (typeof value !== 'string') throw typeError(`${what} must be a string.`);
  if (value.length > maxNameLength) throw typeError(`${what} has at most ${maxNameLength} characters.`);
  return stringifyJson(value);
}
