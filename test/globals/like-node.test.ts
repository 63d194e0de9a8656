import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { resultOf, runOnce, startSandbox } from '../sandbox/harness.ts';
import { nodeBinary } from '../support/server-process.ts';

/** What a script can tell about our globals by looking at them, compared with Node's. */
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const globals =
  `AbortController AbortSignal Blob ByteLengthQueuingStrategy CompressionStream CountQueuingStrategy Crypto
CryptoKey CustomEvent DOMException DecompressionStream Event EventTarget File FormData Headers Performance
ReadableByteStreamController ReadableStream ReadableStreamBYOBReader ReadableStreamBYOBRequest
ReadableStreamDefaultController ReadableStreamDefaultReader Request Response SubtleCrypto TextDecoder
TextDecoderStream TextEncoder TextEncoderStream TransformStream TransformStreamDefaultController URL URLPattern
URLSearchParams WritableStream WritableStreamDefaultController WritableStreamDefaultWriter atob btoa clearInterval
clearTimeout console crypto fetch performance queueMicrotask setInterval setTimeout structuredClone`.split(/\s+/);

/** By place, such as `URL.prototype.href get`, what a script sees there. */
function describe(names: string[]): Record<string, string> {
  const seen: Record<string, string> = {};
  const outcome = (run: () => unknown) => {
    try {
      const value = run();
      // A method that returns a promise answers a wrong call by it.
      if (value instanceof Promise) {
        value.catch(() => {});
        return 'a promise';
      }
      return 'no error';
    } catch (error) {
      return error instanceof TypeError ? 'TypeError' : `${(error as Error)?.name}`;
    }
  };
  const constructs = (code: object) => {
    try {
      Reflect.construct(Object, [], code as () => void);
      return true;
    } catch {
      return false;
    }
  };
  const describeFunction = (place: string, code: (...args: unknown[]) => unknown) => {
    const keys = Reflect.ownKeys(code).map(String);
    const own = ['length', 'name', 'prototype', 'arguments', 'caller'].filter((key) => keys.includes(key));
    seen[place] = `${code.name} ${own.join(' ')}${constructs(code) ? ' constructor' : ''}`;
    seen[`${place} source`] = /\{ \[native code\] \}$/.test(Function.prototype.toString.call(code))
      ? 'native'
      : 'shown';
    const { get, set, value, ...attributes } = Object.getOwnPropertyDescriptor(code, 'name')!;
    seen[`${place} name`] = JSON.stringify(attributes);
    seen[`${place} length`] = String(code.length);
  };
  const describeMembers = (place: string, holder: object, receiver: object) => {
    for (const key of Reflect.ownKeys(holder)) {
      if (typeof holder === 'function' && ['length', 'name', 'arguments', 'caller'].includes(key as string)) continue;
      const at = `${place}.${String(key)}`;
      const { value, get, set, ...attributes } = Object.getOwnPropertyDescriptor(holder, key)!;
      seen[`${at} attributes`] = JSON.stringify(attributes);
      if (get !== undefined) {
        describeFunction(`${at} get`, get);
        seen[`${at} get of another`] = outcome(() => Reflect.apply(get, receiver, []));
      }
      if (set !== undefined) describeFunction(`${at} set`, set);
      if (typeof value !== 'function' || key === 'constructor') continue;
      describeFunction(at, value as () => void);
      if (typeof holder !== 'function' && /^[A-Z]/.test(place))
        seen[`${at} of another`] = outcome(() => Reflect.apply(value as () => void, receiver, [{}, {}, {}]));
    }
  };
  for (const name of names) {
    const value = (globalThis as Record<string, unknown>)[name] as object;
    if (typeof value === 'function') {
      describeFunction(name, value as never);
      const { prototype } = value as { prototype?: object };
      if (prototype !== undefined) {
        seen[`${name} without new`] = outcome(() => (value as unknown as () => void)());
        const parent = Object.getPrototypeOf(value) as unknown as { name: string };
        seen[`${name} parent`] = parent.name;
        describeMembers(`${name}.prototype`, prototype, {});
      }
      describeMembers(name, value, {});
    } else {
      describeMembers(name, value, {});
      seen[`${name} tag`] = Object.prototype.toString.call(value);
    }
  }
  return seen;
}

/** Where the standards want something else than Node has, or a difference is meant. */
const known: [what: RegExp, why: string][] = [
  [/^AbortSignal\.(?:prototype\.)?(?:reason|throwIfAborted|abort|timeout|any) attributes$/, 'Enumerable, by Web IDL.'],
  [/^Event\.prototype\.\w+(?: get)? of another$/, 'A TypeError, by Web IDL.'],
  [/^URLPattern\.prototype/, 'Configurable, and getters without a prototype, by Web IDL.'],
  [
    /^Event\.prototype\.[A-Z_]+ |^CustomEvent\.prototype\.initCustomEvent|Stream\.prototype\.Symbol\(Symbol\.toStringTag\)/,
    'By Web IDL.',
  ],
  [/\.Symbol\(\[\[\w+Steps\]\]\)/, 'Where web-streams-polyfill has the steps of the standard.'],
  [/^Performance parent$/, 'No events are fired at it.'],
];

test('functions, members and their attributes look as in Node', async () => {
  const main = `${describe.toString()} export const main = ({ globals }) => describe(globals);`;
  const here = resultOf(await runOnce(sandbox, main, { args: { globals } })) as Record<string, string>;
  const text = execFileSync(
    nodeBinary,
    ['--no-warnings', '-p', `JSON.stringify((${describe.toString()})(${JSON.stringify(globals)}))`],
    { encoding: 'utf8' },
  );
  const node = JSON.parse(text) as Record<string, string>;
  expect(Object.keys(here).length).toBeGreaterThan(1_500);
  // Node's own globals are JavaScript that shows its source, and some of its methods can be called with `new`.
  const shown = Object.keys(here).filter((place) => place.endsWith(' source') && here[place] !== 'native');
  expect(shown).toEqual([]);
  const different = Object.keys(here)
    .filter((place) => !place.endsWith(' source') && here[place] !== node[place])
    .filter((place) => `${here[place]} prototype constructor` !== node[place])
    .filter((place) => !known.some(([what]) => what.test(place)))
    .map((place) => `${place}: ${here[place]}; in Node ${node[place]}`);
  expect(different).toEqual([]);
});

test('no function of ours shows its source: those of tailor, of iterators and accessors neither', async () => {
  const shown = resultOf(
    await runOnce(
      sandbox,
      `export function main() {
        const shown = [];
        const look = (place, value) => {
          if (typeof value === 'function' && !/\\{ \\[native code\\] \\}$/.test(Function.prototype.toString.call(value))) shown.push(place);
        };
        const members = (place, holder) => {
          for (const key of Reflect.ownKeys(holder)) {
            const { value, get, set } = Object.getOwnPropertyDescriptor(holder, key);
            for (const code of [value, get, set]) if (key !== 'constructor') look(place + '.' + String(key), code);
          }
        };
        for (const name of Object.getOwnPropertyNames(globalThis)) {
          const { get, set } = Object.getOwnPropertyDescriptor(globalThis, name);
          look('get ' + name, get);
          look('set ' + name, set);
        }
        members('tailor', tailor);
        for (const name of Object.getOwnPropertyNames(tailor)) members('tailor.' + name, tailor[name]);
        for (const Class of [tailordb.Client, tailor.iconv.Iconv, TailorErrors, TailorErrorMessage]) {
          look(Class.name, Class);
          members(Class.name, Class);
          members(Class.name, Class.prototype);
        }
        look('size', new CountQueuingStrategy({ highWaterMark: 1 }).size);
        look('size', new ByteLengthQueuingStrategy({ highWaterMark: 1 }).size);
        for (const list of [new URLSearchParams(), new FormData(), new Headers()]) {
          members(list.constructor.name + ' iterator', Object.getPrototypeOf(list.keys()));
        }
        members('stream iterator', Object.getPrototypeOf(new ReadableStream().values()));
        look('toString', Function.prototype.toString);
        return shown;
      }`,
    ),
  );
  expect(shown).toEqual([]);
});
