import { charCodeAt, indexOf, slice } from '../intrinsics.ts';

const tokenMarks = "!#$%&'*+-.^_`|~";

/** Whether a text may be a method or a header's name (RFC 9110, token). */
export function isToken(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    const letter = (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
    const digit = code >= 0x30 && code <= 0x39;
    if (!letter && !digit && indexOf(tokenMarks, text[i] as string) === -1) return false;
  }
  return text !== '';
}

/** Whether a text may be a header's value: one line of bytes. */
export function isHeaderValue(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    if (code === 0 || code === 0x0a || code === 0x0d || code > 0xff) return false;
  }
  return true;
}

/** Without the white space of HTTP around it. */
export function trimmed(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isSpace(charCodeAt(text, from))) from++;
  while (to > from && isSpace(charCodeAt(text, to - 1))) to--;
  return slice(text, from, to);
}

const isSpace = (code: number) => code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d;
