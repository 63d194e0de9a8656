import { typeError } from '../errors.ts';
import { once, toText, toUpperCase, toWellFormed } from '../intrinsics.ts';
import { bodyClass, contentOf } from './body.ts';
import { type Headers, headersClass } from './headers.ts';
import { isToken } from './http-text.ts';

export interface RequestInit {
  method?: unknown;
  headers?: unknown;
  body?: unknown;
  redirect?: unknown;
}

const normalised = { __proto__: null, DELETE: 1, GET: 1, HEAD: 1, OPTIONS: 1, POST: 1, PUT: 1 } as unknown as Record<
  string,
  1 | undefined
>;

export type Request = InstanceType<ReturnType<typeof requestClass>>;

export const requestClass = once(() => {
  const { Body, sharedContent, takeContent } = bodyClass();
  const { Headers } = headersClass();

  return class Request extends Body {
    readonly #url: string;
    readonly #method: string;
    readonly #headers: Headers;
    readonly #redirect: string;

    /** @throws TypeError for what no request can be made of. The URL is looked at when the request is sent. */
    constructor(input: unknown, init: RequestInit | null = {}) {
      const from = typeof input === 'object' && input !== null && #url in input ? input : undefined;
      const { method, headers, body, redirect } = init ?? {};
      const given = contentOf(body);
      super(given !== null || from === undefined ? (given?.content ?? null) : takeContent(from));
      this.#url = from === undefined ? toWellFormed(toText(input)) : from.url;
      this.#method = method === undefined ? (from?.method ?? 'GET') : checkedMethod(method);
      this.#headers = new Headers(headers ?? from?.headers);
      this.#redirect = redirect === undefined ? (from?.redirect ?? 'follow') : checkedRedirect(redirect);
      if (given === null) return;
      if (this.#method === 'GET' || this.#method === 'HEAD') {
        throw typeError('Request with GET/HEAD method cannot have body.');
      }
      if (given.type !== undefined && !this.#headers.has('content-type')) this.#headers.set('content-type', given.type);
    }

    get url(): string {
      return this.#url;
    }

    get method(): string {
      return this.#method;
    }

    get headers(): Headers {
      return this.#headers;
    }

    get redirect(): string {
      return this.#redirect;
    }

    clone(): Request {
      const body = sharedContent(this);
      return new Request(this.#url, { method: this.#method, headers: this.#headers, redirect: this.#redirect, body });
    }
  };
});

function checkedMethod(method: unknown): string {
  const text = toText(method);
  if (!isToken(text)) throw typeError(`'${text}' is not a valid HTTP method.`);
  const upper = toUpperCase(text);
  return normalised[upper] === undefined ? text : upper;
}

function checkedRedirect(redirect: unknown): string {
  const text = toText(redirect);
  if (text !== 'follow' && text !== 'error' && text !== 'manual') {
    throw typeError(`redirect is 'follow', 'error' or 'manual', not '${text}'.`);
  }
  return text;
}
