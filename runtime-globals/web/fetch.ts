import type { FetchAnswer, FetchedResponse, FetchFailure } from '../../src/globals/fetch-protocol.ts';
import { limits } from '../../src/limits.ts';
import { bundle } from '../bundles.ts';
import { typeError } from '../errors.ts';
import { callAsync } from '../host.ts';
import { IntrinsicPromise, promiseThen, stringifyJson, toBase64 } from '../intrinsics.ts';
import { asNative } from '../native.ts';
import { joined } from '../utf8.ts';
import { type Body, bodyOfRemote, takeReader } from './body.ts';
import { fetchError } from './fetch-error.ts';
import { addTo, freeze, type HeaderPair, Headers, pairsOf } from './headers.ts';
import { type RemoteBody, remoteBody } from './remote-body.ts';
import { Request, stateOf } from './request.ts';
import { hasNoBody, ownResponse, type Response } from './response.ts';
import { type Upload, upload } from './upload.ts';

/** Exchanges of this isolate are numbered, so that both sides can speak of one before it is answered. */
let nextExchange = 0;

const functions = {
  /**
   * The server sends the request and answers with the head of the response. Not a recorded call (D12): a body that is run
   * again fetches again.
   */
  async fetch(input: unknown, init: unknown = undefined): Promise<Response> {
    return send(stateOf(new Request(input, init)));
  },
};

export const { fetch } = functions;
asNative('fetch', fetch);

/** How an exchange's head came, or did not. */
type Outcome = { answer: FetchAnswer<FetchedResponse> } | { thrown: unknown };

/** Async throughout, so that V8 tells the script's own frames in the stack of an error. */
async function send(request: ReturnType<typeof stateOf>): Promise<Response> {
  const signal = request.given ?? request.signal ?? null;
  if (signal !== null) {
    const { aborted, reason } = bundle('events').stateOf(signal);
    if (aborted) throw reason;
  }
  const exchange = nextExchange++;
  const { text, rest } = describeBody(request.body);
  const args = `[${exchange},${describe(request, text)}]`;
  const answered = callAsync({ op: 'fetch', args, payload: null, recorded: false });
  const cancel = () => void callAsync({ op: 'fetchCancel', args: `[${exchange}]`, payload: null, recorded: false });
  let remote: RemoteBody | undefined;
  let running: Upload | undefined;
  let forget = () => {};
  const outcome = await new IntrinsicPromise<Outcome>((resolve) => {
    const fail = (thrown: unknown) => resolve({ thrown });
    if (signal !== null) {
      forget = bundle('events').onAbort(signal, () => {
        const { reason } = bundle('events').stateOf(signal);
        if (remote === undefined) cancel();
        else remote.abort(reason);
        fail(reason);
      });
    }
    if (rest !== null) {
      running = upload(exchange, rest, (reason) => {
        cancel();
        fail(reason);
      });
    }
    promiseThen(answered, (answer) => resolve({ answer: answer as FetchAnswer<FetchedResponse> }), fail);
  });
  if ('answer' in outcome && !('failed' in outcome.answer)) {
    remote = remoteBody(exchange, outcome.answer, forget);
    if (!outcome.answer.more) forget();
    return responseOf(outcome.answer, remote);
  }
  running?.stop();
  forget();
  throw 'thrown' in outcome ? outcome.thrown : fetchError((outcome.answer as { failed: FetchFailure }).failed);
}

function responseOf(
  { status, statusText, url, redirected, headers: pairs }: FetchedResponse,
  remote: RemoteBody,
): Response {
  const headers = new Headers();
  for (let i = 0; i < pairs.length; i++) addTo(headers, pairs[i]?.[0], pairs[i]?.[1]);
  freeze(headers);
  const body = hasNoBody(status) ? null : bodyOfRemote(remote, url);
  return ownResponse({ type: 'basic', url, redirected, status, statusText, headers, body });
}

/** JSON text of the request, by hand, so that no toJSON of the script's is asked. Bounded here (S3). */
function describe(request: ReturnType<typeof stateOf>, body: string): string {
  const { url, method, chosen } = request;
  const headers = pairsOf(request.headers);
  let size = url.length + method.length;
  let pairs = '';
  for (let i = 0; i < headers.length; i++) {
    const pair = headers[i] as HeaderPair;
    size += pair[0].length + pair[1].length;
    pairs += `${i > 0 ? ',' : ''}[${stringifyJson(pair[0])},${stringifyJson(pair[1])}]`;
  }
  if (size > limits.fetchHeadBytes) {
    throw typeError(`The URL and the headers of a request have at most ${limits.fetchHeadBytes / 1024} KiB.`);
  }
  return (
    `{"url":${stringifyJson(url)},"method":${stringifyJson(method)},"redirect":"${chosen.redirect}",` +
    `"headers":[${pairs}],"body":${body}}`
  );
}

/** A small body goes along with its request; `rest` reads one that is too large for that, or comes as a stream. */
function describeBody(body: Body | null): { text: string; rest: (() => Promise<unknown>) | null } {
  if (body === null) return { text: 'null', rest: null };
  const { chunks } = body;
  const read = takeReader(body);
  if (body.stream === undefined && chunks !== null) {
    let size = 0;
    for (let i = 0; i < chunks.length; i++) size += (chunks[i] as Uint8Array).length;
    if (size <= limits.fetchBodyBytes) return { text: `{"base64":"${toBase64(joined(chunks))}"}`, rest: null };
  }
  return { text: '{"stream":true}', rest: read };
}
