import { format } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { runOnce, startSandbox } from '../sandbox/harness.ts';

/** The console of a real isolate beside Node's own formats. */
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

/** The lines that a main with this body logs. */
async function lines(body: string): Promise<[level: string, message: string][]> {
  const { end, logs } = await runOnce(sandbox, `export async function main() { ${body} }`);
  expect(end).toMatchObject({ type: 'returned' });
  return logs.map(({ level, message }) => [level, message]);
}

/** Expressions that are evaluated in both worlds, each the arguments of one call. */
const shown = [
  `'text'`,
  `'a', 1, -0, 1n, true, null, undefined, Symbol('s')`,
  `{}`,
  `{ a: 1, 'b-c': 'text', [Symbol('d')]: null, e: { f: { g: { h: 1 } } } }`,
  `[]`,
  `[1, 'two', [3, [4, [5, [6]]]]]`,
  `[1, , 3, , , 6]`,
  `new Array(200)`,
  `Array.from({ length: 120 }, (_, i) => i)`,
  `Array.from({ length: 30 }, (_, i) => 'item ' + i)`,
  `Array.from({ length: 7 }, (_, i) => i * 1000)`,
  `Object.assign([1, 2], { extra: true })`,
  `{ long: 'x'.repeat(60), other: 'y'.repeat(30) }`,
  `{ lines: 'a\\nb', quotes: "it's", both: \`it's "so"\`, control: '\\u0001\\t' }`,
  `{ nested: { list: [{ id: 1, name: 'Ada' }, { id: 2, name: 'Grace' }], map: new Map([['k', { v: 1 }]]) } }`,
  `new Map([['a', 1], [{ b: 2 }, new Set([3])]])`,
  `new Map()`,
  `new Set(['x', 'y'])`,
  `new Uint8Array([1, 2, 3])`,
  `new Float64Array(130)`,
  `new Uint8Array([1, 2]).buffer`,
  `new Date(0)`,
  `new Date(NaN)`,
  `/a\\/b/gi`,
  `function named() {}`,
  `() => {}`,
  `(() => () => {})()`,
  `async function waits() {}`,
  `class Point {}`,
  `class Sub extends Map {}`,
  `Object.assign(function tagged() {}, { a: 1 })`,
  `new (class Point { constructor() { this.x = 1; } })()`,
  `new (class Empty {})()`,
  `new (class Bag extends Map {})([[1, 2]])`,
  `Object.create(null)`,
  `Object.assign(Object.create(null), { a: 1 })`,
  `{ get a() { return 1; }, set b(v) {}, get c() { return 1; }, set c(v) {} }`,
  `new Number(1), new String('abc'), new Boolean(false), Object(Symbol('s')), Object(1n)`,
  `{ [Symbol.toStringTag]: 'Tagged' }`,
  `(() => { const a = { name: 'a' }; a.self = a; a.list = [a, { a }]; return a; })()`,
  `new WeakMap(), new WeakSet()`,
  `Object.fromEntries(Array.from({ length: 27 }, (_, i) => ['key' + i, i]))`,
  `'%s is %d years and %i months, %f', 'Ada', 36.5, 4.9, '1.5x'`,
  `'%s %s %s %s', { a: { b: 1 } }, [1, [2]], null, () => {}`,
  `'%s', new (class Named { toString() { return 'my text'; } })()`,
  `'%j %j', { a: [1] }, undefined`,
  `'%O', { a: { b: { c: { d: { e: 1 } } } } }`,
  `'100%', 'more'`,
  `'%% %s %x', 'a', 'b'`,
  `'%c styled', 'color: red'`,
  `'%d %d %i', 1n, 'x', {}`,
  `'%s'`,
  `1, '%s', 2`,
  `[undefined, null, NaN, -0, 1e21]`,
  `[[[]], [{}], {}]`,
  `[['a', 'b'], ['c', 'd']]`,
  `{ a: [1, 2, 3], b: [['x'.repeat(40)], ['y'.repeat(40)]] }`,
  `'x'.repeat(5000)`,
  `['x'.repeat(5000)]`,
];

test('values and directives look as in Node', async () => {
  const logged = await lines(shown.map((args) => `console.log(${args});`).join('\n'));
  const expected = shown.map((args) => ['info', format(...(new Function(`return [${args}]`)() as [unknown]))]);
  expect(shown.map((args, i) => [args, logged[i]])).toEqual(shown.map((args, i) => [args, expected[i]]));
});

test('errors show their stacks, causes and properties', async () => {
  const logged = await lines(`
    const error = new TypeError('wrong', { cause: new Error('why') });
    error.code = 'E_WRONG';
    console.error(error);
    console.log({ error: new RangeError('inner') });
    console.log(new AggregateError([new Error('one')], 'many'));
    class Mine extends Error {}
    console.log(new Mine('own'));`);
  expect(logged[0]).toEqual(['error', expect.stringMatching(/^TypeError: wrong\n {4}at main \(main@1\.js:2:\d+\)/)]);
  expect(logged[0]![1]).toMatch(
    /\{\n {2}\[cause\]: Error: why\n {6}at main [^}]*\n {2}code: 'E_WRONG'\n\}$|code: 'E_WRONG',\n {2}\[cause\]: Error: why/,
  );
  expect(logged[1]![1]).toMatch(/^\{\n {2}error: RangeError: inner\n {6}at main/);
  expect(logged[2]![1]).toMatch(/\[errors\]: \[\n {4}Error: one\n {8}at main/);
  expect(logged[3]![1]).toMatch(/^(?:Mine|Error): own\n/);
});

test('objects of the platform show what they hold', async () => {
  const logged = await lines(`
    console.log(new Headers({ a: 'b' }));
    console.log(new URL('https://example.org/a?b=c'));
    console.log(new URLSearchParams('a=b'));
    console.log(new Blob(['abc'], { type: 'text/plain' }));
    console.log(new Response('x', { status: 201 }));
    console.log(new ReadableStream());`);
  expect(logged.map(([, text]) => text)).toEqual([
    "Headers { 'a' => 'b' }",
    expect.stringMatching(/^URL \{\n {2}href: 'https:\/\/example\.org\/a\?b=c',\n/),
    expect.stringContaining("'a' => 'b'"),
    "Blob { size: 3, type: 'text/plain' }",
    expect.stringMatching(/status: 201/),
    expect.stringMatching(/^ReadableStream \{ locked: false/),
  ]);
});

test('every method has its level', async () => {
  const logged = await lines(`
    console.debug('d'); console.log('l'); console.info('i'); console.warn('w'); console.error('e');
    console.dir({ a: 1 }); console.dirxml('x', { b: 2 });
    console.assert(true, 'no'); console.assert(false); console.assert(false, 'with %s', 'text'); console.assert(0, { a: 1 });
    console.count(); console.count(); console.count('x'); console.countReset(); console.count(); console.countReset('none');
    console.group('G'); console.log('in\\nside'); console.groupCollapsed(); console.log('deeper'); console.groupEnd(); console.groupEnd();
    console.log('out'); console.time('t'); console.time('t'); console.timeLog('t', { a: 1 }); console.timeEnd('t'); console.timeEnd('t');
    console.clear();
    function where() { console.trace('here %d', 1); } where();`);
  expect(logged).toEqual([
    ['debug', 'd'],
    ['info', 'l'],
    ['info', 'i'],
    ['warn', 'w'],
    ['error', 'e'],
    ['info', '{ a: 1 }'],
    ['info', 'x { b: 2 }'],
    ['error', 'Assertion failed'],
    ['error', 'Assertion failed: with text'],
    ['error', 'Assertion failed { a: 1 }'],
    ['info', 'default: 1'],
    ['info', 'default: 2'],
    ['info', 'x: 1'],
    ['info', 'default: 1'],
    ['warn', "Count for 'none' does not exist"],
    ['info', 'G'],
    ['info', '  in\n  side'],
    ['info', '    deeper'],
    ['info', 'out'],
    ['warn', "Label 't' already exists for console.time()"],
    ['info', expect.stringMatching(/^t: \d+ms \{ a: 1 \}$/)],
    ['info', expect.stringMatching(/^t: \d+ms$/)],
    ['warn', "No such label 't' for console.timeEnd()"],
    ['debug', expect.stringMatching(/^Trace: here 1\n {4}at where \(main@1\.js:\d+:\d+\)\n {4}at main/)],
  ]);
});

test('tables', async () => {
  const logged = await lines(`
    console.table([{ a: 1, b: 'x' }, { a: 2, c: true }]);
    console.table([[1, 2], [3, 4]]);
    console.table(new Map([['k', 1]]));
    console.table(['p', 'q']);
    console.table([{ a: 1, b: 2 }], ['b']);
    console.table('text');`);
  const expected: string[] = [];
  const { Console } = await import('node:console');
  const { Writable } = await import('node:stream');
  const write = (text: unknown, _: unknown, done: () => void) => {
    expected.push(String(text).trimEnd());
    done();
  };
  const own = new Console(new Writable({ write }));
  own.table([
    { a: 1, b: 'x' },
    { a: 2, c: true },
  ]);
  own.table([
    [1, 2],
    [3, 4],
  ]);
  own.table(new Map([['k', 1]]));
  own.table(['p', 'q']);
  own.table([{ a: 1, b: 2 }], ['b']);
  expect(logged.map(([, text]) => text)).toEqual([
    expected[0],
    expected[1],
    expect.any(String),
    expected[3],
    expected[4],
    'text',
  ]);
});

test('what a script logs is bounded, and its getters are not run', async () => {
  const logged = await lines(`
    let runs = 0;
    const deep = {}; let at = deep; for (let i = 0; i < 10_000; i++) at = at.next = {};
    const wide = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => ['k' + i, 'v'.repeat(100)]));
    console.log(deep, wide, { get a() { runs++; return 1; } });
    console.log([[wide, wide], [wide]], new Map(Object.entries(wide)));
    console.log(new Array(5_000_000).fill('x'), new Uint8Array(5_000_000), new Array(2 ** 31));
    console.log(new Proxy({}, { ownKeys() { throw new Error('no'); } }));
    console.log('%s', { toString() { throw new Error('no'); } });
    console.log(runs);`);
  expect(logged).toHaveLength(6);
  for (const [, text] of logged) expect(text.length).toBeLessThanOrEqual(8 * 1024);
  expect(logged[3]![1]).toBe('[value that cannot be read]');
  expect(logged.at(-1)).toEqual(['info', '0']);
});
