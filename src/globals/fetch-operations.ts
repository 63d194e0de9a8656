import type { Response } from 'undici';
import { z } from 'zod';
import { limits } from '../limits.ts';
import type { Exchange, Outgoing } from './exchange.ts';
import type { FetchBroker } from './fetch-broker.ts';
import { badArgument, badUrl, describeFailure, fetchFailed } from './fetch-errors.ts';
import type { FetchAnswer, FetchedPart, FetchedResponse, FetchFailure, FetchWritten } from './fetch-protocol.ts';

/** What `fetch` of runtime-globals sends of the request. */
const fetchRequest = z.strictObject({
  url: z.string().max(limits.fetchHeadBytes),
  method: z.string().max(64),
  headers: z.array(z.tuple([z.string(), z.string()])),
  redirect: z.enum(['follow', 'error', 'manual']),
  /** Bytes in base64, or what comes by `fetchWrite`. */
  body: z.union([z.strictObject({ base64: z.base64() }), z.strictObject({ stream: z.literal(true) })]).nullable(),
});
type FetchRequest = z.infer<typeof fetchRequest>;

/**
 * One run's fetching. Each exchange has a number, which the isolate chose; it belongs to the body of a script that the
 * signal belongs to.
 */
export type FetchOperations = {
  /** `[exchange, { url, method, headers, redirect, body }]` -> FetchedResponse */
  fetch(args: unknown, signal: AbortSignal): Promise<FetchAnswer<FetchedResponse>>;
  /** `[exchange, piece]`, a piece of the request's body in base64, null after the last -> FetchWritten */
  fetchWrite(args: unknown, signal: AbortSignal): Promise<FetchAnswer<FetchWritten>>;
  /** `[exchange]` -> FetchedPart */
  fetchRead(args: unknown, signal: AbortSignal): Promise<FetchAnswer<FetchedPart>>;
  /** `[exchange]`: the script wants no more of it. */
  fetchCancel(args: unknown, signal: AbortSignal): Promise<null>;
  close(): void;
};

/** Set by Node or the connection itself; what a browser does not let a script set either. */
const unsettable = new Set(
  'connection content-length expect host keep-alive te trailer transfer-encoding upgrade'.split(' '),
);
const forbiddenMethods = new Set(['CONNECT', 'TRACE', 'TRACK']);
const fetchArguments = z.tuple([z.int(), fetchRequest]);
/** A piece has `fetchChunkBytes` at most, in base64. */
const writeArguments = z.tuple([
  z.int(),
  z
    .base64()
    .max(2 * limits.fetchChunkBytes)
    .nullable(),
]);
const exchangeArguments = z.tuple([z.int()]);

interface Open {
  exchange: Exchange;
  url: URL;
}

export function fetchOperations(broker: FetchBroker): FetchOperations {
  const connections = broker.open();
  /** Exchanges that are not over, by the signal of the body of a script that made them. */
  const open = new WeakMap<AbortSignal, Map<number, Open>>();
  let heldBytes = 0;

  function openOf(signal: AbortSignal): Map<number, Open> {
    const known = open.get(signal);
    if (known !== undefined) return known;
    const made = new Map<number, Open>();
    open.set(signal, made);
    return made;
  }

  async function send(number: number, outgoing: Outgoing, signal: AbortSignal): Promise<FetchAnswer<FetchedResponse>> {
    const target = outgoing.url;
    const all = openOf(signal);
    const exchange = connections.exchange(signal);
    all.set(number, { exchange, url: target });
    let response: Response;
    try {
      response = await exchange.send(outgoing);
    } catch (error) {
      all.delete(number);
      return { failed: describeFailure(error, target) };
    }
    const { status, statusText, url, redirected } = response;
    const head = { status, statusText, url, redirected, headers: [...response.headers] };
    try {
      const { bytes, done } = await exchange.readNow();
      if (done) all.delete(number);
      return { ...head, body: bytes.toString('base64'), more: !done, broken: null };
    } catch (error) {
      all.delete(number);
      return { ...head, body: '', more: false, broken: describeFailure(error, target, 'terminated') };
    }
  }

  return {
    async fetch(args, signal) {
      const [number, request] = fetchArguments.parse(args);
      const outgoing = toOutgoing(request);
      if ('failed' in outgoing) return outgoing;
      if (openOf(signal).has(number)) return { failed: badArgument('The number of the exchange is in use.') };
      const bytes = sizeOf(request);
      if (heldBytes + bytes > limits.fetchRunBytes) {
        const mib = limits.fetchRunBytes / 1024 / 1024;
        const message = `This run has ${mib} MiB of requests under way; await some of them before the next.`;
        return { failed: fetchFailed('TOO_MUCH_UNDER_WAY', message) };
      }
      heldBytes += bytes;
      try {
        return await send(number, outgoing, signal);
      } finally {
        heldBytes -= bytes;
      }
    },

    async fetchWrite(args, signal) {
      const [number, piece] = writeArguments.parse(args);
      const wanted = await openOf(signal)
        .get(number)
        ?.exchange.write(piece === null ? null : Buffer.from(piece, 'base64'));
      return { wanted: wanted ?? false };
    },

    async fetchRead(args, signal) {
      const [number] = exchangeArguments.parse(args);
      const all = openOf(signal);
      const known = all.get(number);
      if (known === undefined) return { failed: badArgument('The body is not there any more.') };
      try {
        const { bytes, done } = await known.exchange.read();
        if (done) all.delete(number);
        return { body: bytes.toString('base64'), done };
      } catch (error) {
        all.delete(number);
        return { failed: describeFailure(error, known.url, 'terminated') };
      }
    },

    async fetchCancel(args, signal) {
      const [number] = exchangeArguments.parse(args);
      const all = openOf(signal);
      all.get(number)?.exchange.end();
      all.delete(number);
      return null;
    },

    close: connections.close,
  };
}

function sizeOf({ url, headers, body }: FetchRequest): number {
  const bodySize = body !== null && 'base64' in body ? body.base64.length : 0;
  return headers.reduce((sum, [name, value]) => sum + name.length + value.length, url.length + bodySize);
}

function toOutgoing(request: FetchRequest): Outgoing | { failed: FetchFailure } {
  const { method, redirect } = request;
  const url = URL.parse(request.url);
  if (url === null) return { failed: badUrl(request.url) };
  // What a data URL holds is in it; nothing is connected to.
  if (url.protocol !== 'http:' && url.protocol !== 'https:' && url.protocol !== 'data:') {
    return { failed: fetchFailed('UNKNOWN_SCHEME', `fetch knows http:, https: and data:, not ${url.protocol}`) };
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
  return 'stream' in body ? 'stream' : Buffer.from(body.base64, 'base64');
}
