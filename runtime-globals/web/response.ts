import { typeError } from '../errors.ts';
import { asInterface, dictionary } from '../interface.ts';
import {
  charCodeAt,
  IntrinsicRangeError,
  isFiniteNumber,
  stringifyJson,
  toDomText,
  toNumber,
  trunc,
} from '../intrinsics.ts';
import { encodeUtf8 } from '../utf8.ts';
import { type Body, bodyOfChunks, bodyPromises, cloneBody, extractBody, mixBodyIn } from './body.ts';
import { addTo, freeze, Headers, joined, pairsOf } from './headers.ts';
import { parseMime } from './mime.ts';
import { absoluteUrl } from './request-url.ts';

interface State {
  type: 'default' | 'basic' | 'error';
  url: string;
  redirected: boolean;
  status: number;
  statusText: string;
  headers: Headers;
  body: Body | null;
}

let stateOf: (response: Response) => State;

/** A response of our own making, in place of a body and its options. */
class Made {
  readonly state: State;
  readonly #brand = true;

  constructor(state: State) {
    this.state = state;
  }

  static is(value: unknown): value is Made {
    return typeof value === 'object' && value !== null && #brand in value;
  }
}

export const ownResponse = (state: State): Response => new Response(new Made(state));

export class Response {
  readonly #state: State;

  static {
    stateOf = (response) => response.#state;
  }

  /** @throws RangeError for a status that is none, TypeError for a body where there can be none. */
  constructor(body: unknown = null, init: unknown = undefined) {
    this.#state = Made.is(body) ? body.state : newState(body, init);
  }

  static error(): Response {
    const headers = new Headers();
    freeze(headers);
    return ownResponse({ type: 'error', url: '', redirected: false, status: 0, statusText: '', headers, body: null });
  }

  static json(data: unknown, init: unknown = undefined): Response {
    const text = stringifyJson(data) as string | undefined;
    if (text === undefined) throw typeError('Response.json: the data has no JSON.');
    const state = newState(null, init);
    setBody(state, bodyOfChunks([encodeUtf8(text)]), 'application/json');
    return ownResponse(state);
  }

  static redirect(url: unknown, status: unknown = 302): Response {
    const target = absoluteUrl(url);
    const code = unsignedShort(status);
    if (code !== 301 && code !== 302 && code !== 303 && code !== 307 && code !== 308) {
      throw new IntrinsicRangeError('A redirect has status 301, 302, 303, 307 or 308.');
    }
    const state = newState(null, undefined);
    addTo(state.headers, 'location', target);
    freeze(state.headers);
    return ownResponse({ ...state, status: code });
  }

  get type(): string {
    return this.#state.type;
  }

  get url(): string {
    return this.#state.url;
  }

  get redirected(): boolean {
    return this.#state.redirected;
  }

  get status(): number {
    return this.#state.status;
  }

  get ok(): boolean {
    const { status } = this.#state;
    return status >= 200 && status <= 299;
  }

  get statusText(): string {
    return this.#state.statusText;
  }

  get headers(): Headers {
    return this.#state.headers;
  }

  clone(): Response {
    const state = this.#state;
    const body = state.body === null ? null : cloneBody(state.body);
    return ownResponse({ ...state, headers: new Headers(state.headers), body });
  }
}

mixBodyIn(Response.prototype, (instance) => {
  const { body, headers } = stateOf(instance as Response);
  return { body, mime: () => parseMime(joined(pairsOf(headers), 'content-type')) };
});
asInterface('Response', Response, { promises: bodyPromises });

function newState(content: unknown, init: unknown): State {
  const { status: wanted, statusText: text, headers } = dictionary(init, 'The options of a response');
  const status = wanted === undefined ? 200 : unsignedShort(wanted);
  const statusText = text === undefined ? '' : toDomText(text);
  if (!(status >= 200 && status <= 599)) throw new IntrinsicRangeError('status is a number from 200 to 599.');
  if (!isReasonPhrase(statusText)) throw typeError('statusText is one line of plain text.');
  const state: State = {
    type: 'default',
    url: '',
    redirected: false,
    status,
    statusText,
    headers: new Headers(headers),
    body: null,
  };
  if (content === null || content === undefined) return state;
  const { body, type } = extractBody(content);
  setBody(state, body, type);
  return state;
}

function setBody(state: State, body: Body, type: string | null): void {
  if (hasNoBody(state.status)) throw typeError(`A response with status ${state.status} has no body.`);
  state.body = body;
  if (type !== null && joined(pairsOf(state.headers), 'content-type') === null)
    addTo(state.headers, 'content-type', type);
}

export const hasNoBody = (status: number) =>
  status === 101 || status === 103 || status === 204 || status === 205 || status === 304;

/** As Web IDL converts to `unsigned short`. */
function unsignedShort(value: unknown): number {
  const number = trunc(toNumber(value));
  return isFiniteNumber(number) ? ((number % 65_536) + 65_536) % 65_536 : 0;
}

function isReasonPhrase(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    if ((code < 0x20 && code !== 0x09) || code === 0x7f || code > 0xff) return false;
  }
  return true;
}
