import { shared } from 'jobcell:shared';
import { loadBundle } from './host.ts';
import {
  append,
  deleteProperty,
  getOwnPropertyDescriptor,
  hidden,
  objectOf,
  tryDefineProperty,
  usedWhileLoading,
} from './intrinsics.ts';

/** What each bundle exports (scripts/globals.mjs): globals that are compiled when a script first touches them. */
interface Bundles {
  clone: typeof import('./bundles/clone.ts');
  compression: typeof import('./bundles/compression.ts');
  encoding: typeof import('./bundles/encoding.ts');
  events: typeof import('./bundles/events.ts');
  fetch: typeof import('./bundles/fetch.ts');
  files: typeof import('./bundles/files.ts');
  inspect: typeof import('./bundles/inspect.ts');
  'legacy-encodings': typeof import('./bundles/legacy-encodings.ts');
  streams: typeof import('./bundles/streams.ts');
  subtle: typeof import('./bundles/subtle.ts');
  url: typeof import('./bundles/url.ts');
  'url-pattern': typeof import('./bundles/url-pattern.ts');
}

export type BundleName = keyof Bundles;

const loaded = { __proto__: null } as unknown as Partial<Bundles>;

/** The exports of a bundle, which is loaded at the first call: within it, since scripts see no difference then. */
export function bundle<Name extends BundleName>(name: Name): Bundles[Name] {
  const known = loaded[name];
  if (known !== undefined) return known;
  const restore = restoreIntrinsics();
  try {
    const exports = loadBundle(name)(shared()) as Bundles[Name];
    loaded[name] = exports;
    return exports;
  } finally {
    restore();
  }
}

const descriptorKeys = ['get', 'set', 'value', 'writable', 'enumerable', 'configurable'] as const;

/**
 * Puts the intrinsics back that the bundler's helpers use while a bundle is loaded, and takes away what a script has
 * put on `Object.prototype` that would end up in every property descriptor: libraries define their classes by them. No code of the script's runs meanwhile. @returns what undoes it, before the script can notice
 */
function restoreIntrinsics(): () => void {
  const { prototype } = objectOf;
  const taken: (() => void)[] = [];
  for (let i = 0; i < descriptorKeys.length; i++) {
    const key = descriptorKeys[i] as string;
    const descriptor = getOwnPropertyDescriptor(prototype, key);
    if (descriptor === undefined || !deleteProperty(prototype, key)) continue;
    const old = { __proto__: null, ...descriptor } as PropertyDescriptor;
    append(taken, () => void tryDefineProperty(prototype, key, old));
  }
  const used = usedWhileLoading();
  for (let i = 0; i < used.length; i += 3) {
    const holder = used[i] as object;
    const key = used[i + 1] as PropertyKey;
    const original = used[i + 2];
    const descriptor = getOwnPropertyDescriptor(holder, key);
    if (descriptor !== undefined && descriptor.value === original) continue;
    // False for one that the script has also frozen.
    if (!tryDefineProperty(holder, key, hidden(original))) continue;
    append(taken, () => {
      if (descriptor === undefined) deleteProperty(holder, key);
      else tryDefineProperty(holder, key, { __proto__: null, ...descriptor } as PropertyDescriptor);
    });
  }
  return () => {
    for (let i = 0; i < taken.length; i++) (taken[i] as () => void)();
  };
}
