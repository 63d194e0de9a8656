/** What `fetch` of runtime-globals and the server's half of it say to each other, as JSON. Types only. */

/**
 * Why a fetch failed, in the words of a script's author: the isolate makes a TypeError of it. Nothing that Node or
 * undici wrote comes along, since their texts hold addresses, paths and library names.
 */
export interface FetchFailure {
  message: string;
  cause?: { code: string; message: string };
}

/** The head of a response, and its body or the first part of it. */
export interface FetchedResponse {
  status: number;
  statusText: string;
  /** Where the last redirect led. */
  url: string;
  redirected: boolean;
  headers: [name: string, value: string][];
  /** base64: what was there of it already. */
  body: string;
  /** There is more of it for `fetchRead`. */
  more: boolean;
  /** How the body ended in its first part already, if not well. */
  broken: FetchFailure | null;
}

/** The next part of a body. */
export interface FetchedPart {
  /** base64 */
  body: string;
  done: boolean;
}

/** A piece of a request's body was taken. */
export interface FetchWritten {
  /** The other side may take more of it. */
  wanted: boolean;
}

export type FetchAnswer<T> = T | { failed: FetchFailure };
