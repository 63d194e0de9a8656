import type { Kind } from './target.ts';

/** Conformance from below: what uses its memory honestly has to succeed. */
export interface HonestUse {
  name: string;
  kind: Kind;
  source: string;
  /** JSON text of what it returns. */
  result: string;
}

/** Ways to hold so many MB, each returning how many it holds: everything is touched, and all of it kept to the end. */
const ways: Record<string, (mb: number) => string> = {
  'pre-sized array of numbers': (mb) =>
    `const all = new Array(${mb} * 131_072).fill(0.5); return all.length / 131_072;`,
  'pre-sized arrays of 1 MB': (mb) =>
    `const all = Array.from({ length: ${mb} }, () => new Array(131_072).fill(0.5)); return all.length;`,
  strings: (mb) => `const all = [];
    for (let i = 0; i < ${mb}; i++) { const s = ('x' + i).padEnd(1 << 20, 'y'); s.charCodeAt(77); all.push(s); }
    return all.reduce((sum, s) => sum + s.length, 0) / 1_048_576;`,
  'one ArrayBuffer': (mb) => `const all = new Uint8Array(${mb} << 20).fill(1); return all.length / 1_048_576;`,
  'ArrayBuffers of 1 MB': (mb) => `const all = [];
    for (let i = 0; i < ${mb}; i++) all.push(new Uint8Array(1 << 20).fill(1));
    return all.length;`,
  'ArrayBuffers that come and go': (mb) => `let sum = 0;
    for (let i = 0; i < 20 * ${mb}; i++) sum += new Uint8Array(1 << 20).fill(1)[i];
    return sum / 20;`,
};

/** A Map doubles when it grows, so it needs both tables for a moment. An entry is about 38 bytes of table. */
const maps = (mb: number) => `const map = new Map();
  for (let i = 0; i < ${mb} * 27_000; i++) map.set(i, i);
  return map.size / 27_000;`;

const asMain = (body: string) => `export function main() { ${body} }`;

const sizes: { kind: Kind; mb: number; mapMb: number }[] = [
  { kind: 'function', mb: 28, mapMb: 14 },
  { kind: 'job function', mb: 240, mapMb: 120 },
];

/** Three levels, each of which holds an honest 240 MB while the one below it runs. */
const nested = `export function main({ depth = 1 }) {
  const mine = Array.from({ length: 240 }, () => new Uint8Array(1 << 20).fill(1));
  const below = depth < 3 ? tailor.workflow.execJobFunction('nested-honest-use', { depth: depth + 1 }) : 0;
  return below + mine.reduce((sum, { length }) => sum + length, 0) / 1_048_576;
}`;

export const honestUses: HonestUse[] = [
  ...sizes.flatMap(({ kind, mb, mapMb }) => [
    ...Object.entries(ways).map(([way, body]) => ({
      name: `${mb} MB: ${way}`,
      kind,
      source: asMain(body(mb)),
      result: String(mb),
    })),
    { name: `${mapMb} MB: a Map that grows`, kind, source: asMain(maps(mapMb)), result: String(mapMb) },
  ]),
  { name: 'nested-honest-use', kind: 'job function', source: nested, result: '720' },
];
