import { TooManyInterimError } from './bounded-responses.ts';
import type { FetchFailure } from './fetch-protocol.ts';
import { ConnectFailedError, RefusedAddressError } from './guarded-connect.ts';

/** What ends a request when its time is over. */
export class FetchTimeoutError extends Error {
  readonly ms: number;

  constructor(ms: number) {
    super(`over after ${ms} ms`);
    this.ms = ms;
  }
}

export const badArgument = (message: string): FetchFailure => ({ message });

export const badUrl = (url: string): FetchFailure => ({
  message: `Failed to parse URL from ${url.slice(0, 200)}`,
  cause: { code: 'ERR_INVALID_URL', message: 'Invalid URL' },
});

export const fetchFailed = (code: string, message: string): FetchFailure => ({
  message: 'fetch failed',
  cause: { code, message },
});

/** undici says these by message alone. */
const byMessage: Record<string, [code: string, sentence: string]> = {
  'redirect count exceeded': ['TOO_MANY_REDIRECTS', 'There were more than 20 redirects in a row.'],
  'unexpected redirect': ['UNEXPECTED_REDIRECT', "The answer is a redirect, and the request says redirect: 'error'."],
  'URL scheme must be a HTTP(S) scheme': [
    'INVALID_REDIRECT',
    'A redirect leads to something that is not http or https.',
  ],
  'bad port': ['BAD_PORT', 'The port belongs to another protocol, and fetch never connects to it.'],
};

const byCode: Record<string, (host: string) => string> = {
  ECONNREFUSED: (host) => `Nothing listens at ${host}: the connection was refused.`,
  ENOTFOUND: (host) => `The name of ${host} is not known.`,
  EAI_AGAIN: (host) => `The name of ${host} could not be looked up; try again later.`,
  EHOSTUNREACH: (host) => `There is no way to ${host}.`,
  ENETUNREACH: (host) => `There is no way to ${host}.`,
  ETIMEDOUT: (host) => `${host} did not take the connection in time.`,
  UND_ERR_CONNECT_TIMEOUT: (host) => `${host} did not take the connection in time.`,
  ECONNRESET: (host) => `${host} closed the connection.`,
  EPIPE: (host) => `${host} closed the connection.`,
  UND_ERR_SOCKET: (host) => `${host} closed the connection.`,
  UND_ERR_HEADERS_OVERFLOW: (host) => `The headers of the answer of ${host} are too large.`,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: (host) => `${host} sent a body of another length than it announced.`,
};

/** @param message `fetch failed`, or `terminated` for a body that broke off */
export function describeFailure(
  error: unknown,
  url: URL,
  message: 'fetch failed' | 'terminated' = 'fetch failed',
): FetchFailure {
  // With its port where it has one. After a redirect it may be another one that could not be connected to.
  let { host } = url;
  let found: FetchFailure['cause'];
  for (let at: unknown = error; at instanceof Error && found === undefined; at = at.cause) {
    if (at instanceof ConnectFailedError) host = at.host;
    else found = describeOne(at, host);
  }
  const { code, message: sentence } = found ?? { code: 'FETCH_FAILED', message: `The exchange with ${host} failed.` };
  return { message, cause: { code, message: `${sentence.slice(0, -1)} (${shownUrl(url)}).` } };
}

/** A query may hold what belongs into no error. */
function shownUrl({ protocol, host, pathname, search }: URL): string {
  return `${protocol}//${host}${pathname}${search === '' ? '' : '?…'}`.slice(0, 200);
}

function describeOne(error: Error, host: string): FetchFailure['cause'] {
  if (error instanceof RefusedAddressError) {
    const text = `${error.host} is a private or local address, or a name of one; scripts on this server may not reach it.`;
    return { code: 'ADDRESS_NOT_ALLOWED', message: text };
  }
  if (error instanceof FetchTimeoutError) {
    const text = `The exchange with ${host} took longer than ${error.ms / 1_000} s.`;
    return { code: 'ETIMEDOUT', message: text };
  }
  const known = byMessage[error.message];
  if (known !== undefined) return { code: known[0], message: known[1] };
  if (error instanceof TooManyInterimError) {
    return { code: 'INVALID_HTTP', message: `${host} goes on announcing an answer, and does not give it.` };
  }
  if (error.name === 'HTTPParserError') {
    return { code: 'INVALID_HTTP', message: `${host} does not answer with valid HTTP.` };
  }
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code !== 'string') return undefined;
  const sentence = byCode[code]?.(host) ?? otherCode(code, host);
  return { code, message: sentence };
}

function otherCode(code: string, host: string): string {
  if (/CERT|SELF_SIGNED|ISSUER|SIGNATURE/.test(code)) return `The TLS certificate of ${host} is not valid.`;
  if (/^(ERR_SSL|ERR_TLS|EPROTO)/.test(code)) return `${host} does not speak TLS as it should.`;
  if (code.startsWith('Z_') || code.startsWith('ERR__ERROR_FORMAT'))
    return `The body from ${host} cannot be decompressed.`;
  return `The exchange with ${host} failed.`;
}
