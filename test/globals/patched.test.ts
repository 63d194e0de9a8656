import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { resultOf, runOnce, startSandbox } from '../sandbox/harness.ts';

/** A script may replace what the language has before it first touches a global, which is compiled only then. */
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

/** What is replaced, with a note in \`leaked\` of whatever a replacement gets to see that is none of the script's. */
const patches: Record<string, string> = {
  'methods of arrays': `for (const key of ['map', 'push', 'pop', 'shift', 'slice', 'join', 'forEach', 'filter', 'indexOf', 'includes', 'concat', 'splice', 'unshift', 'sort', 'some', 'every', 'reverse', 'find', 'reduce', Symbol.iterator]) {
    Array.prototype[key] = function () { leak('Array.prototype.' + String(key)); throw new RangeError('patched ' + String(key)); };
  }`,
  'methods of strings and regular expressions': `for (const key of ['charCodeAt', 'slice', 'split', 'replace', 'toLowerCase', 'toUpperCase', 'indexOf', 'trim', 'startsWith', 'codePointAt', 'match', 'substring', Symbol.iterator]) {
    String.prototype[key] = function () { leak('String.prototype.' + String(key)); throw new RangeError('patched ' + String(key)); };
  }
  for (const key of ['exec', 'test', Symbol.replace, Symbol.split, Symbol.match]) {
    RegExp.prototype[key] = function () { leak('RegExp.prototype.' + String(key)); throw new RangeError('patched ' + String(key)); };
  }`,
  'methods of maps and sets': `for (const Class of [Map, Set, WeakMap, WeakSet]) for (const key of ['get', 'set', 'has', 'add', 'delete', 'forEach', Symbol.iterator]) {
    if (Class.prototype[key]) Class.prototype[key] = function () { leak(Class.name + '.prototype.' + String(key)); throw new RangeError('patched ' + String(key)); };
  }`,
  functions: `for (const key of ['call', 'apply', 'bind']) {
    Object.defineProperty(Function.prototype, key, { value() { leak('Function.prototype.' + String(key)); throw new RangeError('patched ' + String(key)); } , configurable: true, writable: true });
  }`,
  'statics of Object, Reflect and Array': `const { getOwnPropertyNames } = Object;
  for (const holder of [Object, Reflect, Array]) for (const key of getOwnPropertyNames(holder)) {
    if (typeof holder[key] === 'function' && !['prototype'].includes(key)) holder[key] = function () { leak(key); throw new RangeError('patched ' + key); };
  }`,
  'the species and promises': `Object.defineProperty(Promise, Symbol.species, { get() { leak('species'); throw new RangeError('patched species'); } });
  const { resolve, reject } = Promise;
  Promise.resolve = Promise.reject = function () { leak('Promise.resolve'); throw new RangeError('patched resolve'); };`,
  'setters of Object.prototype': `const { defineProperty: define } = Object;
  for (const key of ['_state', 'state', 'value', 'done', 'get', 'set', 'writable', 'enumerable', 'configurable', 'reason', 'signal', 'type', 'length', 'url', 'headers']) {
    define(Object.prototype, key, { __proto__: null, configurable: true, get() { return undefined; }, set(value) { leak('setter of ' + key); define(this, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true }); } });
  }`,
  'the global classes themselves': `for (const key of ['Array', 'Object', 'Promise', 'Map', 'Set', 'WeakMap', 'Symbol', 'Error', 'TypeError', 'RangeError', 'Uint8Array', 'ArrayBuffer', 'String', 'Number', 'Math', 'JSON', 'Reflect', 'RegExp', 'Proxy', 'DataView']) {
    globalThis[key] = new (class {})();
  }`,
};

/** Libraries call what they use by name, so a script that breaks it has broken these too. */
const ofLibraries = /^(?:URL|.*Stream|.*Strategy|Readable|Writable|Transform)/;

/** Touches every global of ours, and what its own code does at its first use. */
const script = (patch: string) => `
const leaked = {};
const leak = (what) => { leaked[what] = true; };
const names = Object.getOwnPropertyNames(globalThis).filter((name) => !${ofLibraries}.test(name));
const { stringify } = JSON;
const { Array } = globalThis;
const plain = (error) => error.name + ': ' + error.message;
export async function main() {
  const failed = {};
  { ${patch} }
  for (let i = 0; i < names.length; i++) {
    try {
      globalThis[names[i]];
    } catch (error) {
      failed[names[i]] = plain(error);
    }
  }
  try {
    console.log({ a: [1, { b: /c/ }] });
    const target = new EventTarget();
    target.addEventListener('x', () => { failed.heard = true; });
    target.dispatchEvent(new CustomEvent('x'));
    const controller = new AbortController();
    controller.signal.onabort = () => { failed.aborted = true; };
    controller.abort();
    structuredClone({ a: new Date(0), b: { c: 1 } });
    atob(btoa('text'));
    new TextDecoder().decode(new TextEncoder().encode('text'));
    crypto.subtle;
  } catch (error) {
    failed.use = plain(error);
  }
  return '' + stringify({ failed, leaked });
}`;

test.each(Object.entries(patches))('globals load and work under a script that has replaced %s', async (_, patch) => {
  const result = resultOf(await runOnce(sandbox, script(patch))) as string;
  expect(JSON.parse(result)).toEqual({ failed: { heard: true, aborted: true }, leaked: {} });
});
