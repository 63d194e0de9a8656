import type { FetchAnswer, FetchedResponse } from '../../src/globals/fetch-protocol.ts';
import { limits } from '../../src/limits.ts';
import { codedError, typeError } from '../errors.ts';
import { callAsync } from '../host.ts';
import { stringifyJson, toBase64 } from '../intrinsics.ts';
import { utf8Bytes } from '../text.ts';
import { bytesOf } from '../utf8.ts';
import { bodyClass } from './body.ts';
import { fetchError } from './fetch-error.ts';
import { type HeaderPair, headersClass } from './headers.ts';
import { type Request, type RequestInit, requestClass } from './request.ts';
import { type Response, responseClass } from './response.ts';

/**
 * The server sends the request and answers with the head of the response. Not a recorded call (D12): a body that is run
 * again fetches again.
 */
export async function fetch(input: unknown, init?: RequestInit | null): Promise<Response> {
  const args = `[${describe(new (requestClass())(input, init))}]`;
  const answer = (await callAsync({
    op: 'fetch',
    args,
    payload: null,
    recorded: false,
  })) as FetchAnswer<FetchedResponse>;
  if ('failed' in answer) throw fetchError(answer.failed);
  return responseClass().responseFrom(answer);
}

/** JSON text of the request, by hand, so that no toJSON of the script's is asked. Bounded here (S3). */
function describe(request: Request): string {
  const { url, method, redirect } = request;
  const headers = headersClass().pairsOf(request.headers);
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
  const body = describeBody(request);
  return (
    `{"url":${stringifyJson(url)},"method":${stringifyJson(method)},"redirect":${stringifyJson(redirect)},` +
    `"headers":[${pairs}],"body":${body}}`
  );
}

function describeBody(request: Request): string {
  const content = bodyClass().takeContent(request);
  if (content === null) return 'null';
  const bytes = bytesOf(content);
  const text = content as string;
  const size = bytes === undefined ? utf8Bytes(text, limits.payloadBytes) : bytes.length;
  if (size > limits.payloadBytes) {
    const mib = limits.payloadBytes / 1024 / 1024;
    throw codedError('PAYLOAD_TOO_LARGE', `The body of a request has at most ${mib} MiB; send it in parts.`);
  }
  return bytes === undefined ? `{"text":${stringifyJson(text)}}` : `{"base64":"${toBase64(bytes)}"}`;
}
