import { append, indexOf, slice, toLowerCase } from '../intrinsics.ts';
import { isToken, trimmed } from './http-text.ts';

/** A MIME type taken apart (mimesniff.spec.whatwg.org): `text/html` and its parameters, names in lower case. */
export interface MimeType {
  essence: string;
  parameters: [name: string, value: string][];
}

/** Null for what is none. Of several, as joined headers have them, the last valid one. */
export function parseMime(header: string | null): MimeType | null {
  if (header === null) return null;
  let found: MimeType | null = null;
  const parts = splitOutside(header, ',');
  for (let i = 0; i < parts.length; i++) {
    const mime = parseOne(trimmed(parts[i] as string));
    if (mime !== null && mime.essence !== '*/*') found = mime;
  }
  return found;
}

export function mimeText({ essence, parameters }: MimeType): string {
  let text = essence;
  for (let i = 0; i < parameters.length; i++) {
    const parameter = parameters[i] as [string, string];
    const value = parameter[1];
    text += `;${parameter[0]}=${isToken(value) ? value : `"${escaped(value)}"`}`;
  }
  return text;
}

export function parameterOf({ parameters }: MimeType, name: string): string | undefined {
  for (let i = 0; i < parameters.length; i++) if (parameters[i]?.[0] === name) return parameters[i]?.[1];
  return undefined;
}

function parseOne(text: string): MimeType | null {
  const parts = splitOutside(text, ';');
  const essence = toLowerCase(trimmed(parts[0] as string));
  const slash = indexOf(essence, '/');
  if (slash === -1 || !isToken(slice(essence, 0, slash)) || !isToken(slice(essence, slash + 1))) return null;
  const mime: MimeType = { essence, parameters: [] };
  for (let i = 1; i < parts.length; i++) {
    const part = trimmed(parts[i] as string);
    const equals = indexOf(part, '=');
    if (equals === -1) continue;
    const name = toLowerCase(slice(part, 0, equals));
    const raw = slice(part, equals + 1);
    const value = raw[0] === '"' ? unquoted(raw) : raw;
    if (isToken(name) && value !== '' && parameterOf(mime, name) === undefined) append(mime.parameters, [name, value]);
  }
  return mime;
}

/** The parts between separators that stand in no quotes. */
function splitOutside(text: string, separator: string): string[] {
  const parts: string[] = [];
  let from = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (quoted && character === '\\') i++;
    else if (character === '"') quoted = !quoted;
    else if (!quoted && character === separator) {
      append(parts, slice(text, from, i));
      from = i + 1;
    }
  }
  append(parts, slice(text, from));
  return parts;
}

function unquoted(text: string): string {
  let value = '';
  for (let i = 1; i < text.length && text[i] !== '"'; i++) {
    if (text[i] === '\\' && i + 1 < text.length) i++;
    value += text[i];
  }
  return value;
}

function escaped(text: string): string {
  let value = '';
  for (let i = 0; i < text.length; i++) value += text[i] === '"' || text[i] === '\\' ? `\\${text[i]}` : text[i];
  return value;
}
