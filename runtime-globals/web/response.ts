import type { FetchedResponse } from '../../src/globals/fetch-protocol.ts';
import { typeError } from '../errors.ts';
import { IntrinsicRangeError, once, toNumber, toText } from '../intrinsics.ts';
import { toJson } from '../json.ts';
import { bodyClass, contentOf, remoteContentClass } from './body.ts';
import { type Headers, headersClass } from './headers.ts';
import { isHeaderValue } from './http-text.ts';

interface ResponseInit {
  status?: unknown;
  statusText?: unknown;
  headers?: unknown;
}

interface Head {
  status: number;
  statusText: string;
  url: string;
  redirected: boolean;
  type: 'default' | 'basic' | 'error';
}

export type Response = InstanceType<ReturnType<typeof responseClass>['Response']>;

export const responseClass = once(() => {
  const { Body, setContent, sharedContent } = bodyClass();
  const { Headers } = headersClass();
  /** The response that fetch resolves with. */
  let responseFrom!: (fetched: FetchedResponse) => Response;

  class Response extends Body {
    #head: Head;
    readonly #headers: Headers;

    static {
      responseFrom = (fetched) => {
        const { status, statusText, url, redirected, headers } = fetched;
        const response = new Response(null, { headers });
        response.#head = { status, statusText, url, redirected, type: 'basic' };
        if (!hasNoBody(status)) setContent(response, new (remoteContentClass())(fetched));
        return response;
      };
    }

    /** @throws RangeError for a status that is none, TypeError for a body where there can be none. */
    constructor(body?: unknown, init: ResponseInit | null = {}) {
      const given = contentOf(body);
      const { status: wanted, statusText: text, headers } = init ?? {};
      const status = wanted === undefined ? 200 : toNumber(wanted);
      if (!(status >= 200 && status <= 599)) throw new IntrinsicRangeError('status is a number from 200 to 599.');
      const statusText = text === undefined ? '' : toText(text);
      if (!isHeaderValue(statusText)) throw typeError('statusText is one line of plain text.');
      if (given !== null && hasNoBody(status)) throw typeError(`A response with status ${status} has no body.`);
      super(given === null ? null : given.content);
      this.#head = { status, statusText, url: '', redirected: false, type: 'default' };
      this.#headers = new Headers(headers ?? undefined);
      if (given?.type !== undefined && !this.#headers.has('content-type'))
        this.#headers.set('content-type', given.type);
    }

    static json(data: unknown, init: ResponseInit | null = {}): Response {
      const response = new Response(toJson(data, 'data'), init);
      if (new Headers(init?.headers ?? undefined).has('content-type')) return response;
      response.#headers.set('content-type', 'application/json');
      return response;
    }

    static error(): Response {
      const response = new Response();
      response.#head = { status: 0, statusText: '', url: '', redirected: false, type: 'error' };
      return response;
    }

    static redirect(url: unknown, status: unknown = 302): Response {
      const code = toNumber(status);
      if (code !== 301 && code !== 302 && code !== 303 && code !== 307 && code !== 308) {
        throw new IntrinsicRangeError('A redirect has status 301, 302, 303, 307 or 308.');
      }
      const response = new Response(null, { status: code });
      response.#headers.set('location', url);
      return response;
    }

    get status(): number {
      return this.#head.status;
    }

    get statusText(): string {
      return this.#head.statusText;
    }

    get ok(): boolean {
      return this.#head.status >= 200 && this.#head.status <= 299;
    }

    get headers(): Headers {
      return this.#headers;
    }

    get url(): string {
      return this.#head.url;
    }

    get redirected(): boolean {
      return this.#head.redirected;
    }

    get type(): string {
      return this.#head.type;
    }

    clone(): Response {
      const content = sharedContent(this);
      const copy = new Response(null, { headers: this.#headers });
      copy.#head = this.#head;
      setContent(copy, content);
      return copy;
    }
  }

  return { Response, responseFrom };
});

const hasNoBody = (status: number) => status === 204 || status === 205 || status === 304;
