import { typeError } from '../errors.ts';
import { charCodeAt, isArray, isDate, slice, stringifyJson, toHex, toIsoString, toText } from '../intrinsics.ts';
import { bytesOf } from '../utf8.ts';

/**
 * JSON text of a statement's parameters, each as PostgreSQL's text of it or null: a Date as ISO 8601, bytes as bytea, an
 * array as an array, any other object as JSON. @throws TypeError for what PostgreSQL cannot be given
 */
export function parametersJson(values: unknown[]): string {
  let list = '';
  for (let i = 0; i < values.length; i++) {
    const text = parameter(values[i], i);
    list += `${i > 0 ? ',' : ''}${text === null ? 'null' : stringifyJson(text)}`;
  }
  return `[${list}]`;
}

function parameter(value: unknown, index: number): string | null {
  if (value === undefined || value === null) return null;
  const type = typeof value;
  if (type === 'function' || type === 'symbol') {
    throw typeError(`queryObject: parameter $${index + 1} is a ${type}, which PostgreSQL cannot be given.`);
  }
  if (type !== 'object') return toText(value);
  if (isDate(value)) return toIsoString(value as Date);
  const bytes = bytesOf(value);
  if (bytes !== undefined) return `\\x${toHex(bytes)}`;
  return isArray(value) ? arrayLiteral(value, index) : (stringifyJson(value) ?? null);
}

/** `{1,"a \"b\"",NULL,{2}}` */
function arrayLiteral(values: unknown[], index: number): string {
  let list = '';
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    const text = isArray(value) ? arrayLiteral(value, index) : parameter(value, index);
    list += `${i > 0 ? ',' : ''}${text === null ? 'NULL' : isArray(value) ? text : quotedElement(text)}`;
  }
  return `{${list}}`;
}

const quote = 0x22;
const backslash = 0x5c;

function quotedElement(text: string): string {
  let quoted = '"';
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = charCodeAt(text, i);
    if (unit !== quote && unit !== backslash) continue;
    quoted += `${slice(text, from, i)}\\`;
    from = i;
  }
  return `${quoted}${slice(text, from)}"`;
}
