import type { ColumnKind, ElementKind, QueryPart } from '../../src/globals/tailordb-protocol.ts';
import {
  charCodeAt,
  defineProperty,
  indexOf,
  isFiniteNumber,
  isSafeInteger,
  own,
  parseJson,
  regExpExec,
  slice,
  toNumber,
} from '../intrinsics.ts';
import { decodeUtf8, fromLatin1 } from '../utf8.ts';

/**
 * The rows of a result as objects, of all its parts. Until now the parts were text, which takes no more memory than
 * PostgreSQL needed bytes; each is let go as soon as its rows are there.
 */
export function rowsOf(columns: [name: string, kind: ColumnKind][], parts: (QueryPart | undefined)[]): unknown[] {
  const rows: unknown[] = [];
  /** A row that goes on in the next part. */
  let open: unknown[] | undefined;
  let within = false;
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i]?.rows ?? null;
    parts[i] = undefined;
    if (part === null) continue;
    const found = parseJson(part.utf8 ? decodeUtf8(fromLatin1(part.text)) : part.text) as unknown[][];
    for (let r = 0; r < found.length; r++) {
      const values = found[r] as unknown[];
      const row = open === undefined ? values : continued(open, values, within);
      open = undefined;
      if (part.cut === 'row' || r < found.length - 1) {
        rows[rows.length] = toObject(columns, row);
      } else {
        open = row;
        within = part.cut === 'within';
      }
    }
  }
  return rows;
}

/** Concatenated strings share what they are made of, so a value of many parts is not copied. */
function continued(row: unknown[], values: unknown[], within: boolean): unknown[] {
  if (within) row[row.length - 1] = (row[row.length - 1] as string) + (values[0] as string);
  for (let i = within ? 1 : 0; i < values.length; i++) row[row.length] = values[i];
  return row;
}

function toObject(columns: [name: string, kind: ColumnKind][], values: unknown[]): object {
  const row: Record<string, unknown> = {};
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i] as [string, ColumnKind];
    const name = column[0];
    const value = converted(column[1], values[i]);
    if (name === '__proto__') defineProperty(row, name, own(value));
    else row[name] = value;
  }
  return row;
}

function converted(kind: ColumnKind, value: unknown): unknown {
  if (kind === 'plain' || value === null) return value;
  const text = value as string;
  return kind === 'json' ? parseJson(text) : parseArray(text, slice(kind, 0, kind.length - 2) as ElementKind);
}

const openBrace = 0x7b;
const closeBrace = 0x7d;
const comma = 0x2c;
const quote = 0x22;
const backslash = 0x5c;

/** PostgreSQL's text of an array, `{1,NULL,"a \"b\"",{2}}`, perhaps with its bounds before it: `[0:1]={1,2}`. */
function parseArray(text: string, kind: ElementKind): unknown[] {
  const outer: unknown[][] = [];
  let depth = 0;
  let list: unknown[] | undefined;
  for (let at = text[0] === '[' ? indexOf(text, '=') + 1 : 0; at < text.length; ) {
    const unit = charCodeAt(text, at);
    if (unit === openBrace) {
      const inner: unknown[] = [];
      if (list !== undefined) {
        list[list.length] = inner;
        outer[depth++] = list;
      }
      list = inner;
      at++;
    } else if (unit === closeBrace) {
      if (depth === 0) return list as unknown[];
      list = outer[--depth];
      at++;
    } else if (unit === comma) {
      at++;
    } else {
      const end = unit === quote ? quotedEnd(text, at) : plainEnd(text, at);
      const element = unit === quote ? unquoted(text, at + 1, end - 1) : slice(text, at, end);
      const elements = list as unknown[];
      elements[elements.length] = unit !== quote && element === 'NULL' ? null : convertedElement(kind, element);
      at = end;
    }
  }
  return list ?? [];
}

function quotedEnd(text: string, from: number): number {
  let at = from + 1;
  for (; charCodeAt(text, at) !== quote; at++) if (charCodeAt(text, at) === backslash) at++;
  return at + 1;
}

function plainEnd(text: string, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const unit = charCodeAt(text, at);
    if (unit === comma || unit === closeBrace) break;
  }
  return at;
}

function unquoted(text: string, from: number, to: number): string {
  let plain = '';
  let start = from;
  for (let at = indexOf(text, '\\', from); at !== -1 && at < to; at = indexOf(text, '\\', at + 2)) {
    plain += slice(text, start, at);
    start = at + 1;
  }
  return plain + slice(text, start, to);
}

/** As the server makes it of values that are no elements (src/store/tailordb/rows.ts). */
function convertedElement(kind: ElementKind, text: string): unknown {
  switch (kind) {
    case 'number': {
      const number = toNumber(text);
      return isFiniteNumber(number) ? number : text;
    }
    case 'int8': {
      const number = toNumber(text);
      return isSafeInteger(number) ? number : text;
    }
    case 'bool':
      return text === 't';
    case 'json':
      return parseJson(text);
    case 'timestamp':
      return isoTimestamp(text);
    case 'text':
      return text;
  }
}

const timestamp = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(\+00)?$/;

function isoTimestamp(text: string): string {
  const found = regExpExec(timestamp, text) as string[] | null;
  return found === null ? text : `${found[1]}T${found[2]}${found[3] === undefined ? '' : 'Z'}`;
}
