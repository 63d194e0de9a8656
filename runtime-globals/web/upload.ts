import type { FetchAnswer, FetchWritten } from '../../src/globals/fetch-protocol.ts';
import { limits } from '../../src/limits.ts';
import { typeError } from '../errors.ts';
import { callAsync } from '../host.ts';
import { min, promiseThen, subarray, toBase64, typedArrayName } from '../intrinsics.ts';

/** A request's body on its way to the server, a piece at a time: each is answered when the other side has taken it. */
export interface Upload {
  stop(): void;
}

/** @param read the next chunk, null at the end @param failed the body itself broke, or was none */
export function upload(exchange: number, read: () => Promise<unknown>, failed: (reason: unknown) => void): Upload {
  let stopped = false;

  async function write(piece: string | null): Promise<void> {
    const args = piece === null ? `[${exchange},null]` : `[${exchange},"${piece}"]`;
    const answer = (await callAsync({
      op: 'fetchWrite',
      args,
      payload: null,
      recorded: false,
    })) as FetchAnswer<FetchWritten>;
    // A failure comes as the answer of the fetch as well.
    if ('failed' in answer || !answer.wanted) stopped = true;
  }

  async function run(): Promise<void> {
    while (!stopped) {
      const chunk = await read();
      if (chunk === null) {
        await write(null);
        return;
      }
      if (typedArrayName(chunk) !== 'Uint8Array')
        throw typeError('The stream of a body gave something that is no Uint8Array.');
      const bytes = chunk as Uint8Array;
      for (let at = 0; at < bytes.length && !stopped; at += limits.fetchChunkBytes) {
        const part = subarray(bytes, at, min(bytes.length, at + limits.fetchChunkBytes)) as Uint8Array;
        await write(toBase64(part));
      }
    }
  }

  promiseThen(
    run(),
    () => {},
    (reason) => {
      if (!stopped) failed(reason);
    },
  );
  return {
    stop() {
      stopped = true;
    },
  };
}
