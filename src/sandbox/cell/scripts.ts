import type ivm from 'isolated-vm';
import type { ScriptSource } from '../protocol.ts';

/** A script's text, and what V8 made of it in this cell. */
export interface CachedScript {
  text: string;
  /** V8's code cache of a classic script; only ever used in the cell that made it. Modules have none. */
  cachedData: ivm.ExternalCopy<ArrayBuffer> | undefined;
}

/** Texts are kept up to this many characters in all; the oldest go first. */
const maxChars = 32 * 1024 * 1024;

export interface Scripts {
  /** Rejects when the server cannot load it. */
  get(script: ScriptSource, body: number): Promise<CachedScript>;
  /** The server's answer to `needSource`. */
  deliver(hash: string, text: string | null): void;
}

/** Scripts by content hash, so that each crosses from the server once per cell. */
export function openScripts(request: (hash: string, body: number) => void): Scripts {
  const cached = new Map<string, CachedScript>();
  const waiting = new Map<string, PromiseWithResolvers<CachedScript>>();
  let chars = 0;

  return {
    get(script, body) {
      const { hash } = script;
      const hit = cached.get(hash);
      if (hit !== undefined) {
        cached.delete(hash);
        cached.set(hash, hit);
        return Promise.resolve(hit);
      }
      let pending = waiting.get(hash);
      if (pending === undefined) {
        pending = Promise.withResolvers();
        waiting.set(hash, pending);
        request(hash, body);
      }
      return pending.promise;
    },
    deliver(hash, text) {
      const pending = waiting.get(hash);
      waiting.delete(hash);
      if (text === null) {
        pending?.reject(new Error('The server could not load the script.'));
        return;
      }
      const script: CachedScript = { text, cachedData: undefined };
      cached.set(hash, script);
      chars += text.length;
      for (const [oldest, { text: old }] of cached) {
        if (chars <= maxChars || oldest === hash) break;
        cached.delete(oldest);
        chars -= old.length;
      }
      pending?.resolve(script);
    },
  };
}
