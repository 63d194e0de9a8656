import type { FetchAnswer, FetchedPart, FetchedResponse, FetchFailure } from '../../src/globals/fetch-protocol.ts';
import { limits } from '../../src/limits.ts';
import { codedError, typeError } from '../errors.ts';
import { callAsync } from '../host.ts';
import {
  append,
  fromBase64,
  IntrinsicUint8Array,
  once,
  parseJson,
  setBytes,
  toText,
  toWellFormed,
} from '../intrinsics.ts';
import { bytesOf, copyBytes, decodeUtf8, encodeUtf8 } from '../utf8.ts';
import { fetchError } from './fetch-error.ts';

/** What a body is made of: text, bytes, or what is still on its way. */
export type Content = string | Uint8Array<ArrayBuffer> | RemoteContent;

/** The body of a response from the network: its first part is here, the rest is read when it is asked for. */
export type RemoteContent = InstanceType<ReturnType<typeof remoteContentClass>>;

export const remoteContentClass = once(() => {
  return class RemoteContent {
    readonly #first: string;
    readonly #rest: number | null;
    readonly #broken: FetchFailure | null;
    /** With a clone, what was read is kept for the other one. */
    #shared = false;
    #bytes: Promise<Uint8Array<ArrayBuffer>> | undefined;

    constructor({ body, rest, broken }: FetchedResponse) {
      this.#first = body;
      this.#rest = rest;
      this.#broken = broken;
    }

    share(): void {
      this.#shared = true;
    }

    async bytes(method: string): Promise<Uint8Array<ArrayBuffer>> {
      if (!this.#shared) return this.#read(method);
      this.#bytes ??= this.#read(method);
      return copyBytes(await this.#bytes);
    }

    /** @throws TypeError when the body breaks off; an error with code PAYLOAD_TOO_LARGE past the limit of buffered reads. */
    async #read(method: string): Promise<Uint8Array<ArrayBuffer>> {
      if (this.#broken !== null) throw fetchError(this.#broken);
      const first = fromBase64(this.#first) as Uint8Array<ArrayBuffer>;
      if (this.#rest === null) return first;
      const args = `[${this.#rest}]`;
      const parts: Uint8Array[] = [];
      append(parts, first);
      let size = first.length;
      for (let done = false; !done; ) {
        if (size > limits.fetchBufferedBytes) {
          void callAsync({ op: 'fetchCancel', args, payload: null, recorded: false });
          throw tooLarge(method);
        }
        const call = { op: 'fetchRead', args, payload: null, recorded: false };
        const part = (await callAsync(call)) as FetchAnswer<FetchedPart>;
        if ('failed' in part) throw fetchError(part.failed);
        const bytes = fromBase64(part.body);
        append(parts, bytes);
        size += bytes.length;
        done = part.done;
      }
      if (size > limits.fetchBufferedBytes) throw tooLarge(method);
      return joined(parts, size);
    }
  };
});

function tooLarge(method: string): Error {
  const mb = limits.fetchBufferedBytes / 1024 / 1024;
  return codedError(
    'PAYLOAD_TOO_LARGE',
    `The response's body is larger than ${mb} MB, the limit of ${method}(). A larger body has to be streamed, which this ` +
      'server cannot do yet; ask for it in parts, with a range header or page by page.',
  );
}

function joined(parts: Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const all = new IntrinsicUint8Array(size);
  let at = 0;
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] as Uint8Array;
    setBytes(all, part, at);
    at += part.length;
  }
  return all;
}

/** What Request and Response have in common. */
type Body = InstanceType<ReturnType<typeof bodyClass>['Body']>;

export const bodyClass = once(() => {
  let setContent!: (body: Body, content: Content | null) => void;
  /** Takes the content of a body, as reading does. @throws TypeError when it has been read already. */
  let takeContent!: (body: Body) => Content | null;
  /** The content of a body for a clone of it. @throws TypeError likewise. */
  let sharedContent!: (body: Body) => Content | null;

  class Body {
    #content: Content | null;
    #used = false;

    static {
      setContent = (body, content) => {
        body.#content = content;
      };
      takeContent = (body) => {
        body.#use();
        return body.#content;
      };
      sharedContent = (body) => {
        if (body.#used) throw typeError('The body has been read already, so it cannot be cloned.');
        if (isRemote(body.#content)) body.#content.share();
        return body.#content;
      };
    }

    constructor(content: Content | null) {
      this.#content = content;
    }

    get bodyUsed(): boolean {
      return this.#used;
    }

    async text(): Promise<string> {
      const content = this.#take();
      return typeof content === 'string' ? content : decodeUtf8(await bytesIn(content, 'text'));
    }

    async json(): Promise<unknown> {
      const content = this.#take();
      return parseJson(typeof content === 'string' ? content : decodeUtf8(await bytesIn(content, 'json')));
    }

    async arrayBuffer(): Promise<ArrayBuffer> {
      return (await bytesIn(this.#take(), 'arrayBuffer')).buffer;
    }

    async bytes(): Promise<Uint8Array> {
      return bytesIn(this.#take(), 'bytes');
    }

    #use(): void {
      if (this.#used) throw typeError('The body has been read already.');
      this.#used = this.#content !== null;
    }

    #take(): Content {
      this.#use();
      return this.#content ?? '';
    }
  }

  return { Body, setContent, takeContent, sharedContent };
});

async function bytesIn(content: Content, method: string): Promise<Uint8Array<ArrayBuffer>> {
  if (typeof content === 'string') return encodeUtf8(content);
  return isRemote(content) ? content.bytes(method) : copyBytes(content);
}

function isRemote(content: Content | null): content is RemoteContent {
  return content !== null && typeof content !== 'string' && bytesOf(content) === undefined;
}

/** A body as a script gives it, and the content type it has by itself. Null: there is none. */
export function contentOf(value: unknown): { content: Content; type: string | undefined } | null {
  if (value === undefined || value === null) return null;
  const bytes = bytesOf(value);
  if (bytes !== undefined) return { content: copyBytes(bytes), type: undefined };
  return { content: toWellFormed(toText(value)), type: 'text/plain;charset=UTF-8' };
}
