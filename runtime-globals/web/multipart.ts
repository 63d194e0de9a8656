import { fillRandom } from '../chance.ts';
import { typeError } from '../errors.ts';
import {
  append,
  charCodeAt,
  IntrinsicUint8Array,
  indexOf,
  indexOfByte,
  replaceAll,
  slice,
  subarray,
  toHex,
  toLowerCase,
} from '../intrinsics.ts';
import { decodeUtf8, encodeUtf8 } from '../utf8.ts';
import { chunksOf, fileOf, ownBlob } from './blob.ts';
import { entriesOf, FormData, type FormEntry } from './form-data.ts';
import { trimmed } from './http-text.ts';

type Chunk = Uint8Array<ArrayBuffer>;

/** A form as a body: its bytes, and the content type that names the boundary between its parts. */
export function encodeForm(form: FormData): { chunks: Chunk[]; type: string } {
  const random = new IntrinsicUint8Array(12);
  fillRandom(random);
  const boundary = `----jobcell-form-${toHex(random)}`;
  const chunks: Chunk[] = [];
  const entries = entriesOf(form);
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i] as FormEntry;
    const value = entry[1];
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(newlines(entry[0]))}"`;
    if (typeof value === 'string') {
      append(chunks, encodeUtf8(`${head}\r\n\r\n${newlines(value)}\r\n`));
      continue;
    }
    const type = value.type === '' ? 'application/octet-stream' : value.type;
    append(chunks, encodeUtf8(`${head}; filename="${escaped(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`));
    const parts = chunksOf(value);
    for (let p = 0; p < parts.length; p++) append(chunks, parts[p] as Chunk);
    append(chunks, encodeUtf8('\r\n'));
  }
  append(chunks, encodeUtf8(`--${boundary}--\r\n`));
  return { chunks, type: `multipart/form-data; boundary=${boundary}` };
}

const escaped = (text: string) => replaceAll(replaceAll(replaceAll(text, '\n', '%0A'), '\r', '%0D'), '"', '%22');
const unescaped = (text: string) => replaceAll(replaceAll(replaceAll(text, '%0A', '\n'), '%0D', '\r'), '%22', '"');
const newlines = (text: string) => replaceAll(replaceAll(replaceAll(text, '\r\n', '\n'), '\r', '\n'), '\n', '\r\n');

/** @throws TypeError for bytes that are no form with that boundary. */
export function decodeForm(bytes: Chunk, boundary: string): FormData {
  const delimiter = encodeUtf8(`--${boundary}`);
  const form = new FormData();
  const entries = entriesOf(form);
  let at = findBytes(bytes, delimiter, 0);
  if (at === -1) throw malformed();
  for (;;) {
    at += delimiter.length;
    if (bytes[at] === dash && bytes[at + 1] === dash) return form;
    at = afterNewline(bytes, at);
    const headEnd = findBytes(bytes, blankLine, at - 2);
    const end = headEnd === -1 ? -1 : findBytes(bytes, encodeUtf8(`\r\n--${boundary}`), headEnd + 2);
    if (end === -1) throw malformed();
    const head = headEnd < at ? '' : decodeUtf8(subarray(bytes, at, headEnd) as Chunk);
    append(entries, partOf(head, subarray(bytes, headEnd + blankLine.length, end) as Chunk));
    at = end + 2;
  }
}

const dash = 0x2d;
const blankLine = encodeUtf8('\r\n\r\n');
const malformed = () => typeError('The body is no multipart/form-data as its content type says.');

function afterNewline(bytes: Chunk, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x09) at++;
  if (bytes[at] !== 0x0d || bytes[at + 1] !== 0x0a) throw malformed();
  return at + 2;
}

function findBytes(bytes: Chunk, wanted: Chunk, from: number): number {
  const first = wanted[0] as number;
  for (let at = indexOfByte(bytes, first, from); at !== -1; at = indexOfByte(bytes, first, at + 1)) {
    let same = 1;
    while (same < wanted.length && bytes[at + same] === wanted[same]) same++;
    if (same === wanted.length) return at;
  }
  return -1;
}

function partOf(head: string, content: Chunk): FormEntry {
  let name: string | undefined;
  let filename: string | undefined;
  let type = 'text/plain';
  for (let from = 0; from < head.length; ) {
    const next = indexOf(head, '\r\n', from);
    const line = slice(head, from, next === -1 ? head.length : next);
    from = next === -1 ? head.length : next + 2;
    const colon = indexOf(line, ':');
    if (colon === -1) throw malformed();
    const field = toLowerCase(trimmed(slice(line, 0, colon)));
    const value = trimmed(slice(line, colon + 1));
    if (field === 'content-type') type = value;
    if (field !== 'content-disposition') continue;
    if (toLowerCase(slice(value, 0, 9)) !== 'form-data') throw malformed();
    name = parameter(value, 'name');
    filename = parameter(value, 'filename');
  }
  if (name === undefined) throw malformed();
  if (filename === undefined) return [name, decodeUtf8(content)];
  return [name, fileOf(ownBlob([new IntrinsicUint8Array(content)], toLowerCase(type)), filename)];
}

/** The value of `; name="value"` in a header. */
function parameter(header: string, name: string): string | undefined {
  let at = indexOf(header, ';');
  while (at !== -1) {
    let from = at + 1;
    while (header[from] === ' ' || header[from] === '\t') from++;
    const equals = indexOf(header, '=', from);
    if (equals === -1) return undefined;
    const quoted = header[equals + 1] === '"';
    const start = quoted ? equals + 2 : equals + 1;
    let end = start;
    while (end < header.length && charCodeAt(header, end) !== (quoted ? 0x22 : 0x3b)) end++;
    if (toLowerCase(trimmed(slice(header, from, equals))) === name) {
      return quoted ? unescaped(slice(header, start, end)) : trimmed(slice(header, start, end));
    }
    at = indexOf(header, ';', end);
  }
  return undefined;
}
