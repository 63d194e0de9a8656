import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, type RunOptions, resultOf, runOnce, startSandbox } from '../sandbox/harness.ts';

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

/** What an expression over `iconv` and `hex` is, in an isolate. */
async function value(expression: string, options: RunOptions = {}): Promise<unknown> {
  const script = `const { iconv } = tailor;
    const hex = (bytes) => { if (!(bytes instanceof Uint8Array)) throw new Error('no bytes: ' + typeof bytes); return bytes.toHex(); };
    export const main = () => (${expression});`;
  const run = await runOnce(sandbox, script, options);
  expect(run.calls).toEqual([]);
  return resultOf(run);
}

describe('tailor.iconv', () => {
  test.each([
    ['Shift_JIS', '日本語ｶﾅ', '93fa967b8ceab6c5'],
    ['EUC-JP', '日本', 'c6fccbdc'],
    ['windows-1252', 'naïve €', '6e61ef76652080'],
    ['ISO-8859-15', '€', 'a4'],
    ['GB18030', '中文€', 'd6d0cec4a2e3'],
    ['Big5', '中文', 'a4a4a4e5'],
    ['EUC-KR', '한국', 'c7d1b1b9'],
    ['KOI8-R', 'Привет', 'f0d2c9d7c5d4'],
    ['UTF-16LE', 'a😀', '61003dd800de'],
  ])('%s: encodes and decodes', async (encoding, text, bytes) => {
    const both = `[hex(iconv.encode(${JSON.stringify(text)}, '${encoding}')), iconv.decode(Uint8Array.fromHex('${bytes}'), '${encoding}')]`;
    expect(await value(both)).toEqual([bytes, text]);
  });

  test('UTF-8 is a string, anything else is bytes', async () => {
    const calls = `[
      iconv.convert(Uint8Array.fromHex('93fa967b'), 'sjis', 'UTF-8'),
      iconv.convert(Uint8Array.fromHex('93fa967b').buffer, 'SHIFT-JIS', 'utf8'),
      hex(iconv.convert('日本', 'UTF8', 'Shift_JIS')),
      hex(iconv.convertBuffer(Uint8Array.fromHex('93fa967b'), 'Shift_JIS', 'EUC-JP')),
      iconv.convertBuffer(new TextEncoder().encode('日本'), 'UTF-8', 'UTF8'),
      iconv.encode('日本', 'UTF-8'),
      new iconv.Iconv('Shift_JIS', 'UTF-8').convert(Uint8Array.fromHex('93fa967b')),
      hex(new iconv.Iconv('UTF-8', 'Shift_JIS//TRANSLIT//IGNORE').convert('日本😀')),
      iconv.encode('', 'Shift_JIS').length,
      iconv.decode(new Uint8Array(), 'Shift_JIS'),
    ]`;
    expect(await value(calls)).toEqual([
      '日本',
      '日本',
      '93fa967b',
      'c6fccbdc',
      '日本',
      '日本',
      '日本',
      '93fa967b3f',
      0,
      '',
    ]);
  });

  test('lists its encodings', async () => {
    const known = (await value('iconv.encodings()')) as string[];
    expect(known).toEqual(expect.arrayContaining(['utf8', 'shiftjis', 'eucjp', 'gb18030', 'win1252', 'iso88591']));
    expect(known.filter((name) => name.startsWith('_'))).toEqual([]);
  });

  test.each([
    [`iconv.decode(new Uint8Array(1), 'klingon')`, 'tailor.iconv.decode failed: the encoding "klingon" is not known'],
    [`iconv.convert('x', 'UTF-8', '__proto__')`, 'the encoding "__proto__" is not known'],
    [`new iconv.Iconv('nope', 'UTF-8')`, 'tailor.iconv.Iconv failed: the encoding "nope" is not known'],
    [`new iconv.Iconv('UTF-8', 'n'.repeat(1e6))`, 'is not known'],
    [`iconv.decode('text', 'sjis')`, 'decode takes a string, a Uint8Array or an ArrayBuffer.'],
    [`iconv.encode(new Uint8Array(1), 'sjis')`, 'encode: its first argument must be a string.'],
    [`iconv.encode('x', 7)`, 'encode: the name of an encoding must be a string.'],
    [`iconv.convertBuffer('x', 'UTF-8', 'sjis')`, 'convertBuffer: its first argument must be bytes.'],
  ])('%s is an error that says what is wrong', async (expression, message) => {
    const caught = `(() => { try { ${expression}; } catch (error) { return error.message; } })()`;
    expect(await value(caught)).toContain(message);
  });

  test('converts 10 MiB in a job function; more is refused', async () => {
    const size = limits.iconvBytes;
    expect(await value(`iconv.decode(new Uint8Array(${size}).fill(0xb1), 'Shift_JIS').length`)).toBe(size);
    const more = `(() => { try { iconv.decode(new Uint8Array(${size} + 1), 'Shift_JIS'); } catch (error) { return error.message; } })()`;
    expect(await value(more)).toBe('decode converts at most 10 MiB at once; convert it in parts.');
  });

  test('its time counts as the script’s', async () => {
    const script = `export const main = () => {
      const bytes = new Uint8Array(${limits.iconvBytes / 4}).fill(0x61);
      for (;;) tailor.iconv.decode(bytes, 'Shift_JIS');
    };`;
    const run = await runOnce(sandbox, script, { limits: { cpuMs: 1_000 } });
    expect(failureOf(run).error).toMatchObject({ code: 'CPU_LIMIT_EXCEEDED' });
  });
});
