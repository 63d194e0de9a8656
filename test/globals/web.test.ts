import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, resultOf, runOnce, startSandbox } from '../sandbox/harness.ts';

/** Headers, Request, Response and the text codecs, in real isolates and without a network. */
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const evaluate = async (body: string) => resultOf(await runOnce(sandbox, `export async function main() { ${body} }`));

test('Headers', async () => {
  const result = await evaluate(`
    const headers = new Headers({ 'X-B': ' 2 ', a: 1 });
    headers.append('x-b', '3');
    headers.append('Set-Cookie', 'a=1, b');
    headers.append('set-cookie', 'c=2');
    const seen = [];
    headers.forEach((value, name) => seen.push(name + '=' + value));
    headers.delete('A');
    return {
      entries: [...headers], keys: [...headers.keys()], values: [...headers.values()], seen,
      get: headers.get('X-b'), none: headers.get('none'), has: headers.has('a'), cookies: headers.getSetCookie(),
      copy: [...new Headers(headers)], pairs: [...new Headers([['k', 'v']])], map: [...new Headers(new Map([['k', 'v']]))],
    };`);
  const entries = [
    ['set-cookie', 'a=1, b'],
    ['set-cookie', 'c=2'],
    ['x-b', '2, 3'],
  ];
  expect(result).toEqual({
    entries,
    keys: ['set-cookie', 'set-cookie', 'x-b'],
    values: ['a=1, b', 'c=2', '2, 3'],
    seen: ['a=1', 'set-cookie=a=1, b', 'set-cookie=c=2', 'x-b=2, 3'],
    get: '2, 3',
    none: null,
    has: false,
    cookies: ['a=1, b', 'c=2'],
    copy: entries,
    pairs: [['k', 'v']],
    map: [['k', 'v']],
  });
});

test.each([
  `new Headers({ a: 'b\\r\\nx: y' })`,
  `new Headers({ a: 'b\\0' })`,
  `new Headers({ a: 'b\\u0100' })`,
  `new Headers({ 'a b': 'c' })`,
  `new Headers({ '': 'c' })`,
  `new Headers({ 'a:': 'c' })`,
  `new Headers([['a']])`,
  `new Headers('a: b')`,
  `new Request('http://a/', { method: 'GET\\r\\nx: y' })`,
  `new Request('http://a/', { body: 'x' })`,
  `new Request('http://a/', { redirect: 'sometimes' })`,
  `new Response('x', { status: 204 })`,
  `new Response('x', { statusText: 'a\\r\\nb' })`,
])('%s is a TypeError', async (expression) => {
  expect(await evaluate(`try { ${expression}; } catch (error) { return error.name; }`)).toBe('TypeError');
});

test('Request', async () => {
  const result = await evaluate(`
    const request = new Request('http://a/b', { method: 'post', body: 'x', headers: { a: '1' } });
    const copy = request.clone();
    const derived = new Request(request, { headers: { b: '2' } });
    return [request, copy, derived].map((each) => [each.url, each.method, each.redirect, [...each.headers], each.bodyUsed])
      .concat([await copy.text(), await derived.text(), new Request({ toString: () => 'http://c/' }).url]);`);
  const type = ['content-type', 'text/plain;charset=UTF-8'];
  expect(result).toEqual([
    ['http://a/b', 'POST', 'follow', [['a', '1'], type], true],
    ['http://a/b', 'POST', 'follow', [['a', '1'], type], false],
    ['http://a/b', 'POST', 'follow', [['b', '2']], false],
    'x',
    'x',
    'http://c/',
  ]);
});

test('Response', async () => {
  const result = await evaluate(`
    const json = Response.json({ a: [1] }, { status: 201 });
    const copy = json.clone();
    const bytes = new Response(new Uint8Array([104, 0xc3, 0xa4]).subarray(0, 3));
    const read = await json.json();
    const again = await json.text().catch((error) => error.name);
    return {
      read, again, used: [json.bodyUsed, copy.bodyUsed], copy: await copy.text(), ok: json.ok, status: json.status,
      type: json.headers.get('content-type'), text: await bytes.clone().text(),
      buffer: (await bytes.clone().arrayBuffer()).byteLength, bytes: [...await bytes.bytes()],
      empty: await new Response().text(), error: Response.error().type,
      redirect: [Response.redirect('http://a/', 307).status, Response.redirect('http://a/').headers.get('location')],
      range: (() => { try { new Response('', { status: 42 }) } catch (error) { return error.name } })(),
    };`);
  expect(result).toEqual({
    read: { a: [1] },
    again: 'TypeError',
    used: [true, false],
    copy: '{"a":[1]}',
    ok: true,
    status: 201,
    type: 'application/json',
    text: 'hä',
    buffer: 3,
    bytes: [104, 0xc3, 0xa4],
    empty: '',
    error: 'error',
    redirect: [307, 'http://a/'],
    range: 'RangeError',
  });
});

const texts = [
  '',
  'plain',
  'äöü',
  '漢字かな',
  '😀👩‍👩‍👧',
  'a\0b',
  '\ud800x',
  'x\udc00',
  '\ufeffbom',
  'ä😀'.repeat(5_000),
];

test('TextEncoder encodes as Node does', async () => {
  const result = await evaluate(`return ${JSON.stringify(texts)}.map((text) => [...new TextEncoder().encode(text)]);`);
  expect(result).toEqual(texts.map((text) => [...new TextEncoder().encode(text)]));
});

test('TextEncoder.encodeInto writes whole characters only', async () => {
  const result = await evaluate(
    `const bytes = new Uint8Array(6); return [new TextEncoder().encodeInto('aä😀', bytes), [...bytes]];`,
  );
  expect(result).toEqual([{ read: 2, written: 3 }, [97, 0xc3, 0xa4, 0, 0, 0]]);
});

/** Right and wrong UTF-8: overlong forms, surrogates, beyond U+10FFFF, cut off, stray continuations. */
const encoded = [
  ...texts.map((text) => [...new TextEncoder().encode(text)]),
  [0xc0, 0x80],
  [0xc1, 0xbf, 0x41],
  [0xe0, 0x80, 0x80],
  [0xed, 0xa0, 0x80],
  [0xf0, 0x80, 0x80, 0x80],
  [0xf4, 0x90, 0x80, 0x80],
  [0xf5, 0x80],
  [0xff, 0xfe],
  [0xe2, 0x82],
  [0xe2, 0x82, 0x41],
  [0xf0, 0x9f, 0x98],
  [0xf0, 0x9f, 0x41, 0x98],
  [0x80, 0xbf, 0x41],
  [0xef, 0xbb, 0xbf, 0xef, 0xbb, 0xbf, 0x41],
];

test('TextDecoder decodes as Node does, at once and in pieces', async () => {
  const decode = (bytes: number[]) => {
    const whole = new TextDecoder().decode(new Uint8Array(bytes));
    const kept = new TextDecoder('utf8', { ignoreBOM: true }).decode(new Uint8Array(bytes));
    const decoder = new TextDecoder();
    let pieces = '';
    for (const byte of bytes) pieces += decoder.decode(new Uint8Array([byte]), { stream: true });
    pieces += decoder.decode();
    let fatal: string;
    try {
      fatal = new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(bytes));
    } catch (error) {
      fatal = (error as Error).name;
    }
    return [whole, kept, pieces, fatal].map((text) => encodeURIComponent(text.toWellFormed()));
  };
  const result = await evaluate(`const decode = ${decode.toString()}; return ${JSON.stringify(encoded)}.map(decode);`);
  expect(result).toEqual(encoded.map(decode));
});

test('TextDecoder knows every encoding of the standard', async () => {
  const result = await evaluate(`
    const decode = (label, ...bytes) => new TextDecoder(label).decode(new Uint8Array(bytes));
    return [new TextDecoder(' UTF-8\\n').encoding, decode('utf-16', 0xe4, 0), decode('latin1', 0x80), decode('shift_jis', 0x82, 0xa0),
      decode('gb18030', 0x81, 0x30, 0x81, 0x30), decode('koi8-r', 0xc1)];`);
  expect(result).toEqual(['utf-8', 'ä', '€', 'あ', '\u0080', 'а']);
  const { error } = failureOf(await runOnce(sandbox, `export const main = () => new TextDecoder('utf-99')`));
  expect(error).toMatchObject({ name: 'RangeError' });
});

test('what a script does to intrinsics only harms itself', async () => {
  const result = await runOnce(
    sandbox,
    `export async function main() {
      let touched = '';
      for (const type of [Array, String, Map, Uint8Array, Promise]) {
        for (const name of Object.getOwnPropertyNames(type.prototype)) {
          if (name === 'constructor' || name === 'then') continue;
          try { type.prototype[name] = function () { touched += type.name + '.' + name + ' '; throw 1; }; } catch {}
        }
      }
      Object.prototype.toJSON = () => { throw 2 };
      globalThis.JSON = globalThis.Uint8Array = undefined;
      const response = await fetch('http://a/', { method: 'POST', body: 'ä' });
      const result = { text: await response.text(), header: response.headers.get('a'), touched };
      delete Object.prototype.toJSON;
      return result;
    }`,
    {
      onCall: () => ({
        value: JSON.stringify({
          status: 200,
          statusText: 'OK',
          url: 'http://a/',
          redirected: false,
          headers: [['a', 'b']],
          body: Buffer.from('hä').toString('base64'),
          more: false,
          broken: null,
        }),
      }),
    },
  );
  expect(result.calls).toMatchObject([{ op: 'fetch', position: null, payload: null }]);
  expect(JSON.parse(result.calls[0]!.args)).toEqual([
    0,
    {
      url: 'http://a/',
      method: 'POST',
      redirect: 'follow',
      headers: [['content-type', 'text/plain;charset=UTF-8']],
      body: { base64: Buffer.from('ä').toString('base64') },
    },
  ]);
  expect(resultOf(result)).toEqual({ text: 'hä', header: 'b', touched: '' });
});
