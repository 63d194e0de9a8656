import { limits } from '../src/limits.ts';
import { charCodeAt, indexOf, isError, slice, symbolText, toText, toWellFormed } from './intrinsics.ts';

const cutMark = ' ... (cut)';

/** Bytes of a well-formed text in UTF-8, or `max + 1` as soon as it is known to be more. */
export function utf8Bytes(text: string, max: number): number {
  const { length } = text;
  if (length > max) return max + 1;
  let bytes = length;
  for (let i = 0; i < length && bytes <= max; i++) {
    const code = charCodeAt(text, i);
    if (code < 0x80) continue;
    // A surrogate pair is 4 bytes: 2 for each of its halves.
    bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2;
  }
  return bytes > max ? max + 1 : bytes;
}

/** The text without what PostgreSQL refuses (NUL, lone surrogates), in at most `maxBytes` of UTF-8 (D33). */
export function storable(text: string, maxBytes: number): string {
  // A text of n units has at least n bytes, so nothing beyond maxBytes units can stay; cut before the slow part.
  let clean = toWellFormed(text.length > maxBytes ? slice(text, 0, maxBytes) : text);
  clean = withoutNul(clean);
  if (text.length <= maxBytes && utf8Bytes(clean, maxBytes) <= maxBytes) return clean;
  return slice(clean, 0, unitsWithin(clean, maxBytes - cutMark.length)) + cutMark;
}

function withoutNul(text: string): string {
  let at = indexOf(text, '\0');
  if (at === -1) return text;
  let clean = '';
  let from = 0;
  for (; at !== -1; at = indexOf(text, '\0', from)) {
    clean += `${slice(text, from, at)}\ufffd`;
    from = at + 1;
  }
  return clean + slice(text, from);
}

/** How many leading UTF-16 units fit into so many bytes, without cutting a surrogate pair in two. */
function unitsWithin(text: string, maxBytes: number): number {
  let bytes = 0;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    const pair = code >= 0xd800 && code <= 0xdbff;
    bytes += pair ? 4 : code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
    if (bytes > maxBytes) return i;
    if (pair) i++;
  }
  return text.length;
}

/** Name, message and stack of whatever a script threw. A hostile getter costs the script's own time, nobody else's. */
export function describeThrown(thrown: unknown): { name: string; message: string; stack: string } {
  if (isError(thrown)) {
    return {
      name: property(thrown, 'name', limits.errorNameBytes) || 'Error',
      message: property(thrown, 'message', limits.errorMessageBytes),
      stack: property(thrown, 'stack', limits.errorStackBytes),
    };
  }
  const message =
    typeof thrown === 'object' && thrown !== null ? property(thrown, 'message', limits.errorMessageBytes) : '';
  return { name: 'Error', message: message || primitiveText(thrown), stack: '' };
}

function primitiveText(value: unknown): string {
  try {
    return storable(typeof value === 'symbol' ? symbolText(value) : toText(value), limits.errorMessageBytes);
  } catch {
    return 'A value that has no text was thrown.';
  }
}

function property(value: unknown, name: string, maxBytes: number): string {
  try {
    const text: unknown = (value as Record<string, unknown>)[name];
    return text === undefined ? '' : storable(toText(text), maxBytes);
  } catch {
    return '';
  }
}
