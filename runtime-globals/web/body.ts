import { limits } from '../../src/limits.ts';
import { bundle } from '../bundles.ts';
import { codedError, typeError } from '../errors.ts';
import { platformOf } from '../interface.ts';
import {
  append,
  defineProperty,
  getOwnPropertyDescriptor,
  IntrinsicTypeError,
  IntrinsicUint8Array,
  indexOf,
  ownKeys,
  parseJson,
  slice,
  toDomText,
  toWellFormed,
  typedArrayName,
} from '../intrinsics.ts';
import { bytesOf, copyBytes, decodeUtf8, decodeUtf8Keeping, encodeUtf8, joined } from '../utf8.ts';
import { type MimeType, mimeText, parameterOf } from './mime.ts';
import type { RemoteBody } from './remote-body.ts';

type Chunk = Uint8Array<ArrayBuffer>;
type Stream = InstanceType<ReturnType<typeof streams>['ReadableStream']>;
const streams = () => bundle('streams');

/** A body: bytes that are here and never change, what is on its way from the network, or a stream of the script's. */
export interface Body {
  readonly chunks: readonly Chunk[] | null;
  readonly remote: RemoteBody | null;
  /** Made when a script asks for it; from then on everything is read through it. */
  stream: Stream | undefined;
  /** It was read without a stream. */
  used: boolean;
  /** The URL that its bytes come from; what reads them all at once is bounded then. Null for a body of the script's. */
  readonly from: string | null;
}

export const bodyOfChunks = (chunks: readonly Chunk[]): Body => ({
  chunks,
  remote: null,
  stream: undefined,
  used: false,
  from: null,
});
export const bodyOfRemote = (remote: RemoteBody, from: string): Body => ({
  chunks: null,
  remote,
  stream: undefined,
  used: false,
  from,
});
export const bodyOfStream = (stream: Stream, from: string | null = null): Body => ({
  chunks: null,
  remote: null,
  stream,
  used: false,
  from,
});

type Extracted = { body: Body; type: string | null };

function extractBlob(value: object): Extracted | undefined {
  const { isBlob, chunksOf } = bundle('files');
  if (!isBlob(value)) return undefined;
  return { body: bodyOfChunks(chunksOf(value)), type: value.type === '' ? null : value.type };
}

/** By the interface that the prototypes tell, so that nothing is loaded for what a script does not use. */
const extractors = {
  __proto__: null,
  Blob: extractBlob,
  File: extractBlob,
  FormData(value: object): Extracted | undefined {
    const { isFormData, encodeForm } = bundle('files');
    if (!isFormData(value)) return undefined;
    const { chunks, type } = encodeForm(value);
    return { body: bodyOfChunks(chunks), type };
  },
  URLSearchParams(value: object): Extracted | undefined {
    const text = bundle('url').parametersText(value);
    if (text === undefined) return undefined;
    return { body: bodyOfChunks([encodeUtf8(text)]), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  },
  ReadableStream(value: object): Extracted | undefined {
    const { isReadableStream, isLocked, isDisturbed } = streams();
    if (!isReadableStream(value)) return undefined;
    if (isLocked(value) || isDisturbed(value)) {
      throw typeError('The stream has been read or has a reader, so it cannot be a body.');
    }
    return { body: bodyOfStream(value), type: null };
  },
} as unknown as Record<string, ((value: object) => Extracted | undefined) | undefined>;

/** A body as a script gives it, and the content type it has by itself. */
export function extractBody(value: unknown): Extracted {
  const bytes = bytesOf(value);
  if (bytes !== undefined) return { body: bodyOfChunks([copyBytes(bytes)]), type: null };
  const known =
    typeof value === 'object' && value !== null ? extractors[platformOf(value)?.name ?? '']?.(value) : undefined;
  if (known !== undefined) return known;
  return { body: bodyOfChunks([encodeUtf8(toWellFormed(toDomText(value)))]), type: 'text/plain;charset=UTF-8' };
}

const isUsed = (body: Body): boolean => (body.stream === undefined ? body.used : streams().isDisturbed(body.stream));

/** Nothing else may read it: it has been read, or somebody has a reader. */
export const isUnusable = (body: Body): boolean =>
  isUsed(body) || (body.stream !== undefined && streams().isLocked(body.stream));

/** The stream that a script sees as `body`. */
function streamOf(body: Body): Stream {
  if (body.stream !== undefined) return body.stream;
  const read = body.used ? () => null : readerOf(body);
  const stream = streams().byteStream({ pull: read, cancel: () => body.remote?.cancel() });
  if (body.used) streams().exhaust(stream);
  body.stream = stream;
  return stream;
}

/** Reads a body that has no stream. */
function readerOf({ chunks, remote }: Body): () => Chunk | null | Promise<Chunk | null> {
  if (remote !== null) return () => remote.read();
  let next = 0;
  return () => {
    for (let chunk = chunks?.[next++]; chunk !== undefined; chunk = chunks?.[next++]) {
      if (chunk.length > 0) return copyBytes(chunk);
    }
    return null;
  };
}

/**
 * What reads a body piece by piece, which is taken by it.
 * @throws TypeError when it has been read, or a script is reading it.
 */
export function takeReader(body: Body): () => Promise<unknown> {
  if (isUnusable(body)) throw typeError('The body has been read already, or is being read.');
  if (body.stream !== undefined) return streams().chunkReader(body.stream);
  body.used = true;
  const read = readerOf(body);
  return async () => read();
}

/** A body with the same bytes, which both can read. */
export function cloneBody(body: Body): Body {
  if (isUnusable(body)) throw typeError('The body has been read already, or is being read, so it cannot be cloned.');
  if (body.stream === undefined && body.chunks !== null) return bodyOfChunks(body.chunks);
  const ofScript = body.remote === null && body.chunks === null;
  const branches = streams().tee(streamOf(body));
  body.stream = branches[0];
  const second = branches[1] as Stream;
  return bodyOfStream(ofScript ? streams().withClonedChunks(second) : second, body.from);
}

/** All bytes. @param method what reads them, for the error. */
async function readAll(body: Body, method: string): Promise<Chunk> {
  const read = takeReader(body);
  const parts: Chunk[] = [];
  let size = 0;
  for (let part = await read(); part !== null; part = await read()) {
    const bytes = chunkOf(part);
    append(parts, bytes);
    size += bytes.length;
    if (body.from === null || size <= limits.fetchBufferedBytes) continue;
    const error = tooLarge(method, body.from);
    if (body.remote !== null) body.remote.cancel();
    if (body.stream !== undefined) streams().cancelTaken(body.stream, error);
    throw error;
  }
  return parts.length === 1 ? (parts[0] as Chunk) : joined(parts);
}

function chunkOf(part: unknown): Chunk {
  const bytes = typedArrayName(part) === 'Uint8Array' ? bytesOf(part) : undefined;
  if (bytes === undefined) throw typeError('The stream of a body gave something that is no Uint8Array.');
  return bytes;
}

/** A query may hold what belongs into no error. */
const withoutQuery = (url: string) => {
  const end = indexOf(url, '?');
  return slice(end === -1 ? url : `${slice(url, 0, end)}?…`, 0, 200);
};

function tooLarge(method: string, url: string): Error {
  const mb = limits.fetchBufferedBytes / 1024 / 1024;
  return codedError(
    'PAYLOAD_TOO_LARGE',
    `The body from ${withoutQuery(url)} is larger than ${mb} MB, the limit of ${method}(). Read it as a stream instead: ` +
      'response.body.getReader(), pipeTo() and pipeThrough() have no such limit.',
    IntrinsicTypeError,
  );
}

/** What the body of a request or a response needs of it. */
interface Holder {
  body: Body | null;
  mime: () => MimeType | null;
}

/** Gives a class `body`, `bodyUsed` and the methods that read all of it. */
export function mixBodyIn(prototype: object, holderOf: (instance: object) => Holder): void {
  const members = {
    get body(): Stream | null {
      const { body } = holderOf(this);
      return body === null ? null : streamOf(body);
    },
    get bodyUsed(): boolean {
      const { body } = holderOf(this);
      return body !== null && isUsed(body);
    },
    async arrayBuffer(): Promise<ArrayBuffer> {
      return (await bytesFrom(holderOf(this), 'arrayBuffer')).buffer;
    },
    async blob(): Promise<object> {
      const holder = holderOf(this);
      const bytes = await bytesFrom(holder, 'blob');
      const mime = holder.mime();
      return bundle('files').ownBlob([bytes], mime === null ? '' : mimeText(mime));
    },
    async bytes(): Promise<Uint8Array> {
      return bytesFrom(holderOf(this), 'bytes');
    },
    async formData(): Promise<object> {
      const holder = holderOf(this);
      const bytes = await bytesFrom(holder, 'formData');
      return formOf(bytes, holder.mime());
    },
    async json(): Promise<unknown> {
      return parseJson(decodeUtf8(await bytesFrom(holderOf(this), 'json'))) as unknown;
    },
    textStream(): Stream {
      const { body } = holderOf(this);
      const stream = body === null ? streams().byteStream({ pull: () => null }) : streamOf(body);
      return streams().decodedText(stream);
    },
    async text(): Promise<string> {
      return decodeUtf8(await bytesFrom(holderOf(this), 'text'));
    },
  };
  const names = ownKeys(members);
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string;
    defineProperty(prototype, name, {
      __proto__: null,
      ...getOwnPropertyDescriptor(members, name),
    } as PropertyDescriptor);
  }
}

export const bodyPromises = ['arrayBuffer', 'blob', 'bytes', 'formData', 'json', 'text'];

async function bytesFrom({ body }: Holder, method: string): Promise<Chunk> {
  return body === null ? new IntrinsicUint8Array(0) : readAll(body, method);
}

function formOf(bytes: Chunk, mime: MimeType | null): object {
  const { decodeForm, FormData, entriesOf } = bundle('files');
  if (mime?.essence === 'multipart/form-data') {
    const boundary = parameterOf(mime, 'boundary');
    if (boundary === undefined) throw typeError('The content type names no boundary, so the body is no form.');
    return decodeForm(bytes, boundary);
  }
  if (mime?.essence !== 'application/x-www-form-urlencoded') {
    throw typeError(
      'The content type is that of no form: formData() needs multipart/form-data or application/x-www-form-urlencoded.',
    );
  }
  const form = new FormData();
  const entries = entriesOf(form);
  bundle('url').eachParameter(decodeUtf8Keeping(bytes), (name, value) => append(entries, [name, value]));
  return form;
}
