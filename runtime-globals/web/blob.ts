import { bundle } from '../bundles.ts';
import { typeError } from '../errors.ts';
import { asInterface, dictionary, sequence, tooFew } from '../interface.ts';
import {
  append,
  charCodeAt,
  isFiniteNumber,
  max,
  min,
  subarray,
  toDomText,
  toLowerCase,
  toNumber,
  toWellFormed,
  trunc,
} from '../intrinsics.ts';
import { reading } from '../replay/clock.ts';
import { bytesOf, copyBytes, decodeUtf8, encodeUtf8, joined } from '../utf8.ts';

/** Bytes that a stream of a blob hands out at a time. */
const chunkBytes = 65_536;

type Chunk = Uint8Array<ArrayBuffer>;

/** What a blob of ours is made of, in place of what a script gives. */
class Chunks {
  readonly list: Chunk[];
  readonly type: string;
  readonly #brand = true;

  static is(value: unknown): value is Chunks {
    return typeof value === 'object' && value !== null && #brand in value;
  }

  constructor(list: Chunk[], type: string) {
    this.list = list;
    this.type = type;
  }
}

/** The bytes of a blob: never written to again, so blobs share them. */
export let chunksOf: (blob: Blob) => readonly Chunk[];
export let isBlob: (value: unknown) => value is Blob;

export class Blob {
  readonly #chunks: Chunk[];
  readonly #size: number;
  readonly #type: string;

  static {
    chunksOf = (blob) => blob.#chunks;
    isBlob = (value): value is Blob => typeof value === 'object' && value !== null && #chunks in value;
  }

  constructor(parts: unknown = undefined, options: unknown = undefined) {
    const made = Chunks.is(parts) ? parts : new Chunks(...fromParts(parts, options));
    this.#chunks = made.list;
    this.#type = made.type;
    let size = 0;
    for (let i = 0; i < made.list.length; i++) size += (made.list[i] as Chunk).length;
    this.#size = size;
  }

  get size(): number {
    return this.#size;
  }

  get type(): string {
    return this.#type;
  }

  slice(start: unknown = 0, end: unknown = this.#size, contentType: unknown = ''): Blob {
    const from = position(start, this.#size, 0);
    const to = max(from, position(end, this.#size, this.#size));
    const list: Chunk[] = [];
    let at = 0;
    for (let i = 0; i < this.#chunks.length; i++) {
      const chunk = this.#chunks[i] as Chunk;
      const first = max(0, from - at);
      const last = min(chunk.length, to - at);
      if (first < last) append(list, subarray(chunk, first, last) as Chunk);
      at += chunk.length;
    }
    return new Blob(new Chunks(list, cleanType(toDomText(contentType))));
  }

  stream(): object {
    let index = 0;
    let at = 0;
    const chunks = this.#chunks;
    return bundle('streams').byteStream({
      pull() {
        for (let chunk = chunks[index]; chunk !== undefined; chunk = chunks[++index], at = 0) {
          if (at === chunk.length) continue;
          const next = copyBytes(subarray(chunk, at, min(chunk.length, at + chunkBytes)) as Chunk);
          at += next.length;
          return next;
        }
        return null;
      },
    });
  }

  textStream(): object {
    return bundle('streams').decodedText(this.stream() as never);
  }

  async text(): Promise<string> {
    return decodeUtf8(bytesIn(this));
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return bytesIn(this).buffer;
  }

  async bytes(): Promise<Uint8Array> {
    return bytesIn(this);
  }
}

asInterface('Blob', Blob, {
  clonable: {
    keep: (instance) => instance,
    restore: (kept) => ownBlob(chunksOf(kept as Blob), (kept as Blob).type),
  },
});

/** A copy of all bytes of a blob. */
const bytesIn = (blob: Blob): Uint8Array<ArrayBuffer> => joined(chunksOf(blob));

export function ownBlob(chunks: readonly Chunk[], type: string): Blob {
  return new Blob(new Chunks(chunks as Chunk[], type));
}

function fromParts(parts: unknown, options: unknown): [list: Chunk[], type: string] {
  const given = parts === undefined ? [] : listOf(parts);
  const { endings, type } = dictionary(options, 'The options of Blob');
  const lines = endings === undefined ? 'transparent' : toDomText(endings);
  if (lines !== 'transparent' && lines !== 'native')
    throw typeError(`endings is 'transparent' or 'native', not '${lines}'.`);
  const mime = type === undefined ? '' : cleanType(toDomText(type));
  const list: Chunk[] = [];
  for (let i = 0; i < given.length; i++) {
    const part = given[i];
    if (isBlob(part)) {
      const chunks = chunksOf(part);
      for (let c = 0; c < chunks.length; c++) append(list, chunks[c] as Chunk);
      continue;
    }
    const bytes = bytesOf(part);
    append(list, bytes === undefined ? encodeUtf8(part as string) : copyBytes(bytes));
  }
  return [list, mime];
}

/** Texts are made at once: what their conversion runs comes before anything is copied. */
const listOf = (parts: unknown): unknown[] =>
  sequence(parts, 'What a Blob is made of', (part) =>
    isBlob(part) || bytesOf(part) !== undefined ? part : toWellFormed(toDomText(part)),
  );

function cleanType(type: string): string {
  for (let i = 0; i < type.length; i++) {
    const code = charCodeAt(type, i);
    if (code < 0x20 || code > 0x7e) return '';
  }
  return toLowerCase(type);
}

/** A place in the blob, from its end where it is negative, as `[Clamp] long long` has it. */
function position(value: unknown, size: number, missing: number): number {
  if (value === undefined) return missing;
  const number = trunc(toNumber(value));
  if (!isFiniteNumber(number)) return number > 0 ? size : 0;
  return number < 0 ? max(size + number, 0) : min(number, size);
}

export class File extends Blob {
  readonly #name: string;
  readonly #lastModified: number;

  constructor(parts: unknown, name: unknown, options: unknown = undefined) {
    if (arguments.length < 2) throw tooFew('File', 2, arguments.length);
    super(parts, Chunks.is(parts) ? undefined : options);
    this.#name = toWellFormed(toDomText(name));
    const { lastModified } = dictionary(options, 'The options of File');
    // Kept for a replay like any reading of the clock (D12).
    this.#lastModified = lastModified === undefined ? reading() : integer(lastModified);
  }

  get name(): string {
    return this.#name;
  }

  get lastModified(): number {
    return this.#lastModified;
  }
}

asInterface('File', File, {
  clonable: {
    keep: (instance) => instance,
    restore(kept) {
      const { name, lastModified } = kept as File;
      return fileOf(kept as Blob, name, lastModified);
    },
  },
});

export const isFile = (value: unknown): value is File => isBlob(value) && value instanceof File;

/** A file with the bytes and the type of a blob. */
export function fileOf(blob: Blob, name: string, lastModified?: number): File {
  return new File(
    new Chunks(chunksOf(blob) as Chunk[], blob.type),
    name,
    lastModified === undefined ? undefined : { lastModified },
  );
}

function integer(value: unknown): number {
  const number = trunc(toNumber(value));
  return isFiniteNumber(number) ? number : 0;
}
