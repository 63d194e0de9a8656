import type { Inward } from '../src/sandbox/boundary.ts';
import { type BundleName, bundle } from './bundles.ts';
import { findMain, kindOfMain, start } from './entry.ts';
import { answer, connect, type HostReference, open } from './host.ts';
import { defineProperty, hidden, lazy } from './intrinsics.ts';
import { asNative, asNativeClass, membersAsNative } from './native.ts';
import { installReplay } from './replay/install.ts';
import { makeContext } from './tailor/context.ts';
import { TailorErrorMessage, TailorErrors } from './tailor/errors.ts';
import { makeIconv } from './tailor/iconv.ts';
import { makeLogger } from './tailor/logger.ts';
import { makeSecretManager } from './tailor/secretmanager.ts';
import { makeTailordb } from './tailor/tailordb.ts';
import { makeWorkflow } from './tailor/workflow.ts';
import { makeConsole } from './web/console.ts';
import { cryptoClass } from './web/crypto.ts';
import { performanceClass } from './web/performance.ts';
import { tick, timerGlobals } from './web/timers.ts';

/** Globals by the bundle that has them. */
const inBundles: Partial<Record<BundleName, string[]>> = {
  events: ['AbortController', 'AbortSignal', 'CustomEvent', 'DOMException', 'Event', 'EventTarget'],
  clone: ['structuredClone'],
  compression: ['CompressionStream', 'DecompressionStream'],
  encoding: ['atob', 'btoa', 'TextDecoder', 'TextEncoder'],
  fetch: ['fetch', 'Headers', 'Request', 'Response'],
  files: ['Blob', 'File', 'FormData'],
  streams: [
    'ByteLengthQueuingStrategy',
    'CountQueuingStrategy',
    'ReadableByteStreamController',
    'ReadableStream',
    'ReadableStreamBYOBReader',
    'ReadableStreamBYOBRequest',
    'ReadableStreamDefaultController',
    'ReadableStreamDefaultReader',
    'TextDecoderStream',
    'TextEncoderStream',
    'TransformStream',
    'TransformStreamDefaultController',
    'WritableStream',
    'WritableStreamDefaultController',
    'WritableStreamDefaultWriter',
  ],
  subtle: ['CryptoKey', 'SubtleCrypto'],
  url: ['URL', 'URLSearchParams'],
  'url-pattern': ['URLPattern'],
};

/** Hardens a fresh context and installs the globals. */
function install(): void {
  const target = globalThis as Record<string, unknown>;
  // Memory that isolated-vm does not account, and threads: neither belongs in here (sandbox.md).
  delete target.WebAssembly;
  delete target.SharedArrayBuffer;
  delete target.Atomics;
  lazy(target, 'console', makeConsole);
  lazy(target, 'Performance', () => performanceClass().Performance);
  lazy(target, 'performance', () => performanceClass().performance);
  lazy(target, 'Crypto', () => cryptoClass().Crypto);
  lazy(target, 'crypto', () => cryptoClass().crypto);
  lazy(target, 'tailor', makeTailor);
  lazy(target, 'tailordb', makeTailordb);
  lazy(target, 'TailorErrors', () => asNativeClass('TailorErrors', TailorErrors));
  lazy(target, 'TailorErrorMessage', () => asNativeClass('TailorErrorMessage', TailorErrorMessage));
  for (const [from, names] of Object.entries(inBundles)) {
    for (const name of names) lazy(target, name, () => (bundle(from as BundleName) as Record<string, unknown>)[name]);
  }
  for (const [name, value] of Object.entries(timerGlobals)) defineProperty(target, name, hidden(asNative(name, value)));
}

function makeTailor(): object {
  const tailor = {};
  lazy(tailor, 'workflow', () => membersAsNative(makeWorkflow()));
  lazy(tailor, 'context', () => membersAsNative(makeContext()));
  lazy(tailor, 'secretmanager', () => membersAsNative(makeSecretManager()));
  lazy(tailor, 'logger', () => membersAsNative(makeLogger()));
  lazy(tailor, 'iconv', () => membersAsNative(makeIconv()));
  return tailor;
}

/** What the cell asks of this isolate. The only function that leaves it, and only the cell holds it. */
function enter(...message: Inward): unknown {
  switch (message[0]) {
    case 'open':
      open(message[1], message[2]);
      return message[3] === undefined ? undefined : installReplay(message[3]);
    case 'start':
      return start(message[1], message[2] as object | undefined);
    case 'mainKind':
      return kindOfMain(findMain(message[1] as object | undefined));
    case 'answer':
      return answer(message[1], message[2]);
    case 'tick':
      return tick();
  }
}

/** Taken and deleted by the cell before anything of a script is in here. */
(globalThis as Record<string, unknown>).jobcellBoot = (host: HostReference) => {
  delete (globalThis as Record<string, unknown>).jobcellBoot;
  connect(host);
  install();
  return enter;
};
