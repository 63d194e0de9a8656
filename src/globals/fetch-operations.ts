import type { Response } from 'undici';
import { z } from 'zod';
import { limits } from '../limits.ts';
import type { Exchange, Outgoing } from './exchange.ts';
import type { FetchBroker } from './fetch-broker.ts';
import { badArgument, badUrl, describeFailure, fetchFailed } from './fetch-errors.ts';
import type { FetchAnswer, FetchedPart, FetchedResponse, FetchFailure } from './fetch-protocol.ts';

/** What `fetch` of runtime-globals sends: the one element of the call's arguments. */
const fetchRequest = z.strictObject({
  url: z.string().max(limits.fetchHeadBytes),
  method: z.string().max(64),
  headers: z.array(z.tuple([z.string(), z.string()])),
  redirect: z.enum(['follow', 'error', 'manual']),
  /** Text, or bytes in base64. */
  body: z.union([z.strictObject({ text: z.string() }), z.strictObject({ base64: z.base64() })]).nullable(),
});
type FetchRequest = z.infer<typeof fetchRequest>;

/** One run's `fetch`, `fetchRead` and `fetchCancel`. */
export interface FetchOperations {
  /** `[{ url, method, headers, redirect, body }]` -> FetchedResponse */
  fetch(args: unknown, signal: AbortSignal): Promise<FetchAnswer<FetchedResponse>>;
  /** `[rest]` -> FetchedPart */
  fetchRead(args: unknown, signal: AbortSignal): Promise<FetchAnswer<FetchedPart>>;
  /** `[rest]`: the script wants no more of this body. */
  fetchCancel(args: unknown, signal: AbortSignal): Promise<null>;
  close(): void;
}

/** Set by Node or the connection itself; what a browser does not let a script set either. */
const unsettable = new Set(
  'connection content-length expect host keep-alive te trailer transfer-encoding upgrade'.split(' '),
);
const forbiddenMethods = new Set(['CONNECT', 'TRACE', 'TRACK']);
const restArguments = z.tuple([z.number()]);

type Rests = Map<number, { exchange: Exchange; host: string }>;

export function fetchOperations(broker: FetchBroker): FetchOperations {
  const connections = broker.open();
  /** Responses whose bodies are not read to their ends, by the signal of the body of a script that may read them. */
  const unread = new WeakMap<AbortSignal, Rests>();
  let nextRest = 0;
  let heldBytes = 0;

  async function send(outgoing: Outgoing, signal: AbortSignal): Promise<FetchAnswer<FetchedResponse>> {
    const { host } = outgoing.url;
    const exchange = connections.exchange(signal);
    let response: Response;
    try {
      response = await exchange.send(outgoing);
    } catch (error) {
      return { failed: describeFailure(error, host) };
    }
    const { status, statusText, url, redirected } = response;
    const head = { status, statusText, url, redirected, headers: [...response.headers] };
    try {
      const { bytes, done } = await exchange.read();
      const rest = done ? null : nextRest++;
      if (rest !== null) restsOf(signal).set(rest, { exchange, host });
      return { ...head, body: bytes.toString('base64'), rest, broken: null };
    } catch (error) {
      return { ...head, body: '', rest: null, broken: describeFailure(error, host, 'terminated') };
    }
  }

  function restsOf(signal: AbortSignal): Rests {
    const known = unread.get(signal);
    if (known !== undefined) return known;
    const made: Rests = new Map();
    unread.set(signal, made);
    return made;
  }

  return {
    async fetch(args, signal) {
      const [request] = z.tuple([fetchRequest]).parse(args);
      const outgoing = toOutgoing(request);
      if ('failed' in outgoing) return outgoing;
      const bytes = sizeOf(request);
      if (heldBytes + bytes > limits.fetchRunBytes) {
        const mib = limits.fetchRunBytes / 1024 / 1024;
        const message = `This run has ${mib} MiB of requests under way; await some of them before the next.`;
        return { failed: fetchFailed('TOO_MUCH_UNDER_WAY', message) };
      }
      heldBytes += bytes;
      try {
        return await send(outgoing, signal);
      } finally {
        heldBytes -= bytes;
      }
    },

    async fetchRead(args, signal) {
      const [rest] = restArguments.parse(args);
      const rests = restsOf(signal);
      const body = rests.get(rest);
      if (body === undefined) return { failed: badArgument('The body is not there any more.') };
      try {
        const { bytes, done } = await body.exchange.read();
        if (done) rests.delete(rest);
        return { body: bytes.toString('base64'), done };
      } catch (error) {
        rests.delete(rest);
        return { failed: describeFailure(error, body.host, 'terminated') };
      }
    },

    async fetchCancel(args, signal) {
      const [rest] = restArguments.parse(args);
      const rests = restsOf(signal);
      rests.get(rest)?.exchange.end();
      rests.delete(rest);
      return null;
    },

    close: connections.close,
  };
}

function sizeOf({ url, headers, body }: FetchRequest): number {
  const bodySize = body === null ? 0 : 'text' in body ? Buffer.byteLength(body.text) : body.base64.length;
  return headers.reduce((sum, [name, value]) => sum + name.length + value.length, url.length + bodySize);
}

function toOutgoing(request: FetchRequest): Outgoing | { failed: FetchFailure } {
  const { method, redirect } = request;
  const url = URL.parse(request.url);
  if (url === null) return { failed: badUrl(request.url) };
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return { failed: fetchFailed('UNKNOWN_SCHEME', `fetch knows http: and https:, not ${url.protocol}`) };
  }
  if (url.username !== '' || url.password !== '') {
    return { failed: badArgument('The URL holds a user name or a password; send an authorization header instead.') };
  }
  if (forbiddenMethods.has(method.toUpperCase()))
    return { failed: badArgument(`fetch cannot use the method ${method}.`) };
  if (request.body !== null && (method === 'GET' || method === 'HEAD')) {
    return { failed: badArgument('Request with GET/HEAD method cannot have body.') };
  }
  const headers = request.headers.filter(([name]) => !unsettable.has(name.toLowerCase()));
  if (!headers.some(([name]) => name.toLowerCase() === 'user-agent')) headers.push(['user-agent', 'jobcell']);
  return { url, method, headers, redirect, body: bodyOf(request) };
}

function bodyOf({ body }: FetchRequest): Outgoing['body'] {
  if (body === null) return null;
  return 'text' in body ? body.text : Buffer.from(body.base64, 'base64');
}
