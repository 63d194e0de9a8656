import {
  charCodeAt,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  indexOf,
  padStart,
  regExpExec,
  slice,
  symbolText,
  toRadix,
  toStringTag,
  toText,
  toUpperCase,
} from '../intrinsics.ts';

const maxTextChars = 10_000;

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
export function quoted(text: string): string {
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

export function functionText(value: object): string {
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

export function constructorName(value: object): string | null {
  for (let at: object | null = value; at !== null; at = getPrototypeOf(at) as object | null) {
    const maker: unknown = getOwnPropertyDescriptor(at, 'constructor')?.value;
    if (typeof maker === 'function' && functionName(maker) !== '') return functionName(maker);
  }
  return null;
}

/** `Map(2) `, `Point `, `[Object: null prototype] `: what stands before the brackets. */
export function prefix(value: object, fallback: string, size: string): string {
  const name = constructorName(value);
  const tag = tagOf(value);
  const base = name === null ? `[${fallback}${size}: null prototype] ` : `${name}${size} `;
  return tag !== '' && tag !== name ? `${base}[${tag}] ` : base;
}

export function tagOf(value: object): string {
  // As a property of its own it is shown like any other.
  if (getOwnPropertyDescriptor(value, toStringTag)?.enumerable === true) return '';
  for (let at: object | null = value; at !== null; at = getPrototypeOf(at) as object | null) {
    const descriptor = getOwnPropertyDescriptor(at, toStringTag);
    if (descriptor === undefined) continue;
    return typeof descriptor.value === 'string' ? descriptor.value : '';
  }
  return '';
}
