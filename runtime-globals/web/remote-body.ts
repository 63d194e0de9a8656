import type { FetchAnswer, FetchedPart, FetchedResponse, FetchFailure } from '../../src/globals/fetch-protocol.ts';
import { callAsync } from '../host.ts';
import { fromBase64 } from '../intrinsics.ts';
import { fetchError } from './fetch-error.ts';

type Chunk = Uint8Array<ArrayBuffer>;

/** The body of a response from the network: its first part is here, the rest is read when it is asked for. */
export interface RemoteBody {
  /** The next bytes, null at the end. Rejects with a TypeError when the body breaks off, or with the reason of an abort. */
  read(): Promise<Chunk | null>;
  /** The rest is not wanted: its connection is free again. */
  cancel(): void;
  /** Every later read rejects with the reason, and one that is under way at the next. */
  abort(reason: unknown): void;
}

/**
 * @param exchange the number of its fetch, by which the server knows the rest
 * @param over called once when nothing more will come
 */
export function remoteBody(exchange: number, fetched: FetchedResponse, over: () => void): RemoteBody {
  let first: string | null = fetched.body;
  let more = fetched.more;
  const broken: FetchFailure | null = fetched.broken;
  let aborted: { reason: unknown } | undefined;
  const args = `[${exchange}]`;

  function end(): void {
    more = false;
    over();
  }

  function cancel(): void {
    first = null;
    if (!more) return;
    end();
    void callAsync({ op: 'fetchCancel', args, payload: null, recorded: false });
  }

  function check(): void {
    if (aborted !== undefined) throw aborted.reason;
  }

  return {
    async read() {
      check();
      if (broken !== null) throw fetchError(broken);
      if (first !== null) {
        const bytes = fromBase64(first) as Chunk;
        first = null;
        if (bytes.length > 0) return bytes;
      }
      while (more) {
        const part = (await callAsync({
          op: 'fetchRead',
          args,
          payload: null,
          recorded: false,
        })) as FetchAnswer<FetchedPart>;
        check();
        if ('failed' in part) {
          end();
          throw fetchError(part.failed);
        }
        if (part.done) end();
        const bytes = fromBase64(part.body) as Chunk;
        if (bytes.length > 0) return bytes;
      }
      return null;
    },
    cancel,
    abort(reason) {
      aborted ??= { reason };
      cancel();
    },
  };
}
