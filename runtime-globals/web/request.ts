import { bundle } from '../bundles.ts';
import { typeError } from '../errors.ts';
import { asInterface, dictionary, tooFew } from '../interface.ts';
import { toDomText, toUpperCase } from '../intrinsics.ts';
import { type Body, bodyOfStream, bodyPromises, cloneBody, extractBody, isUnusable, mixBodyIn } from './body.ts';
import { addTo, Headers, joined, pairsOf } from './headers.ts';
import { isToken } from './http-text.ts';
import { parseMime } from './mime.ts';
import { absoluteUrl } from './request-url.ts';

type AbortSignal = InstanceType<ReturnType<typeof events>['AbortSignal']>;
const events = () => bundle('events');

const normalised = { __proto__: null, DELETE: 1, GET: 1, HEAD: 1, OPTIONS: 1, POST: 1, PUT: 1 } as unknown as Record<
  string,
  1 | undefined
>;
const forbiddenMethods = { __proto__: null, CONNECT: 1, TRACE: 1, TRACK: 1 } as unknown as Record<
  string,
  1 | undefined
>;

/** Members that a request keeps and shows although nothing here goes by them, but for `redirect`. */
const choices = {
  cache: ['default', 'no-store', 'reload', 'no-cache', 'force-cache', 'only-if-cached'],
  credentials: ['same-origin', 'omit', 'include'],
  mode: ['cors', 'no-cors', 'same-origin', 'navigate'],
  redirect: ['follow', 'error', 'manual'],
  referrerPolicy: [
    '',
    'no-referrer',
    'no-referrer-when-downgrade',
    'same-origin',
    'origin',
    'strict-origin',
    'origin-when-cross-origin',
    'strict-origin-when-cross-origin',
    'unsafe-url',
  ],
} as const;
type Choice = keyof typeof choices;

interface State {
  url: string;
  method: string;
  headers: Headers;
  body: Body | null;
  chosen: Record<Choice, string>;
  referrer: string;
  integrity: string;
  keepalive: boolean;
  /** As it was given; the request's own is made when a script asks for it. */
  given: AbortSignal | null;
  signal: AbortSignal | undefined;
}

export let stateOf: (request: Request) => State;
let isRequest: (value: unknown) => value is Request;

/** From `Request.clone`. */
class Cloned {
  readonly state: State;
  readonly #brand = true;

  constructor(state: State) {
    this.state = state;
  }

  static is(value: unknown): value is Cloned {
    return typeof value === 'object' && value !== null && #brand in value;
  }
}

export class Request {
  readonly #state: State;

  static {
    stateOf = (request) => request.#state;
    isRequest = (value): value is Request => typeof value === 'object' && value !== null && #state in value;
  }

  /** @throws TypeError for what no request can be made of. */
  constructor(input: unknown, init: unknown = undefined) {
    if (arguments.length === 0) throw tooFew('Request', 1, 0);
    this.#state = Cloned.is(input) ? input.state : newState(input, dictionary(init, 'The options of a request'));
  }

  get method(): string {
    return this.#state.method;
  }

  get url(): string {
    return this.#state.url;
  }

  get headers(): Headers {
    return this.#state.headers;
  }

  get destination(): string {
    void this.#state;
    return '';
  }

  get referrer(): string {
    return this.#state.referrer;
  }

  get referrerPolicy(): string {
    return this.#state.chosen.referrerPolicy;
  }

  get mode(): string {
    return this.#state.chosen.mode;
  }

  get credentials(): string {
    return this.#state.chosen.credentials;
  }

  get cache(): string {
    return this.#state.chosen.cache;
  }

  get redirect(): string {
    return this.#state.chosen.redirect;
  }

  get integrity(): string {
    return this.#state.integrity;
  }

  get keepalive(): boolean {
    return this.#state.keepalive;
  }

  get isReloadNavigation(): boolean {
    void this.#state;
    return false;
  }

  get isHistoryNavigation(): boolean {
    void this.#state;
    return false;
  }

  get signal(): AbortSignal {
    return signalOf(this.#state);
  }

  get duplex(): 'half' {
    void this.#state;
    return 'half';
  }

  clone(): Request {
    const state = this.#state;
    const body = state.body === null ? null : cloneBody(state.body);
    const given = state.given === null && state.signal === undefined ? null : signalOf(state);
    return new Request(new Cloned({ ...state, headers: new Headers(state.headers), body, given, signal: undefined }));
  }
}

mixBodyIn(Request.prototype, (instance) => {
  const { body, headers } = stateOf(instance as Request);
  return { body, mime: () => parseMime(joined(pairsOf(headers), 'content-type')) };
});
asInterface('Request', Request, { promises: bodyPromises });

/** The request's own signal, which follows the one it was given. */
function signalOf(state: State): AbortSignal {
  state.signal ??= events().anySignal(state.given === null ? [] : [state.given]);
  return state.signal;
}

function newState(input: unknown, init: Record<string, unknown>): State {
  const from = isRequest(input) ? stateOf(input) : undefined;
  const url = from?.url ?? absoluteUrl(input, 'refused');
  if (init.window !== undefined && init.window !== null) throw typeError('window of a request can only be null.');
  const referrer = init.referrer === undefined ? (from?.referrer ?? 'about:client') : referrerOf(init.referrer);
  const chosen = {} as Record<Choice, string>;
  chosen.referrerPolicy = choose('referrerPolicy', init, from);
  chosen.mode = choose('mode', init, from);
  if (init.mode !== undefined && chosen.mode === 'navigate') throw typeError("mode of a request cannot be 'navigate'.");
  chosen.credentials = choose('credentials', init, from);
  chosen.cache = choose('cache', init, from);
  if (chosen.cache === 'only-if-cached' && chosen.mode !== 'same-origin') {
    throw typeError("cache 'only-if-cached' needs mode 'same-origin'.");
  }
  chosen.redirect = choose('redirect', init, from);
  const integrity = init.integrity === undefined ? (from?.integrity ?? '') : toDomText(init.integrity);
  const keepalive = init.keepalive === undefined ? (from?.keepalive ?? false) : Boolean(init.keepalive);
  const method = init.method === undefined ? (from?.method ?? 'GET') : checkedMethod(init.method);
  if (chosen.mode === 'no-cors' && method !== 'GET' && method !== 'HEAD' && method !== 'POST') {
    throw typeError(`mode 'no-cors' has no method ${method}.`);
  }
  const given = checkedSignal(init, from);
  checkedPriority(init);
  const headers = new Headers(init.headers === undefined ? from?.headers : init.headers);
  const body = bodyFor(init, from, method, headers);
  return { url, method, headers, body, chosen, referrer, integrity, keepalive, given, signal: undefined };
}

function bodyFor(
  init: Record<string, unknown>,
  from: State | undefined,
  method: string,
  headers: Headers,
): Body | null {
  const given = init.body !== undefined && init.body !== null;
  if ((given || (from?.body ?? null) !== null) && (method === 'GET' || method === 'HEAD')) {
    throw typeError('Request with GET/HEAD method cannot have body.');
  }
  if (init.duplex !== undefined && init.duplex !== 'half') throw typeError("duplex of a request can only be 'half'.");
  if (given) {
    const { body, type } = extractBody(init.body);
    if (body.chunks === null && init.duplex === undefined) {
      throw typeError("A request whose body is a stream needs duplex: 'half'.");
    }
    if (type !== null && joined(pairsOf(headers), 'content-type') === null) addTo(headers, 'content-type', type);
    return body;
  }
  const inherited = from?.body ?? null;
  if (inherited === null || from === undefined) return null;
  if (init.body === null) return null;
  if (isUnusable(inherited)) throw typeError('The body of the request has been read already, or is being read.');
  // Its bytes move: the old request has nothing left to read.
  if (inherited.stream !== undefined) return bodyOfStream(bundle('streams').movedTo(inherited.stream), inherited.from);
  const moved: Body = { ...inherited };
  inherited.used = true;
  return moved;
}

function choose(name: Choice, init: Record<string, unknown>, from: State | undefined): string {
  const wanted = init[name];
  if (wanted === undefined) return from?.chosen[name] ?? choices[name][0];
  const text = toDomText(wanted);
  const list: readonly string[] = choices[name];
  for (let i = 0; i < list.length; i++) if (list[i] === text) return text;
  throw typeError(`${name} of a request cannot be '${text}'.`);
}

function referrerOf(referrer: unknown): string {
  const text = toDomText(referrer);
  return text === '' ? '' : absoluteUrl(text);
}

function checkedMethod(method: unknown): string {
  const text = toDomText(method);
  const upper = toUpperCase(text);
  if (!isToken(text) || forbiddenMethods[upper] !== undefined) throw typeError(`'${text}' is not a valid HTTP method.`);
  return normalised[upper] === undefined ? text : upper;
}

function checkedSignal(init: Record<string, unknown>, from: State | undefined): AbortSignal | null {
  const { signal } = init;
  if (signal === undefined)
    return from === undefined ? null : from.given === null && from.signal === undefined ? null : signalOf(from);
  if (signal === null) return null;
  if (!events().isAbortSignal(signal)) throw typeError('signal of a request is an AbortSignal.');
  return signal;
}

function checkedPriority({ priority }: Record<string, unknown>): void {
  if (priority === undefined) return;
  const text = toDomText(priority);
  if (text !== 'high' && text !== 'low' && text !== 'auto')
    throw typeError(`priority of a request cannot be '${text}'.`);
}
