import { expect, test } from 'vitest';
import { RawJson, toJsonText } from '../../src/api/json.ts';

test('what holds no raw JSON is written as JSON.stringify does', () => {
  const values = [
    null,
    'a"\u0000\ud800',
    1.5,
    true,
    [],
    {},
    [undefined, 1, [null]],
    { a: undefined, b: { c: [{ d: 'é' }] }, __proto__: 1, 'key"': 1 },
    new Date(0),
  ];
  for (const value of values) expect(toJsonText(value)).toBe(JSON.stringify(value));
});

test('raw JSON is spliced in as it stands, even where parsing would change it (D33)', () => {
  const text = '{"big": 12345678901234567890, "twice":1,"twice":2, "s":"\\u0000\\ud800"}';
  expect(toJsonText({ a: new RawJson(text), b: [new RawJson('1.0')] })).toBe(`{"a":${text},"b":[1.0]}`);
});
