import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

const file = new URL('../docs/benchmarks.md', import.meta.url);
const head = `# Benchmarks

Written by \`npm run bench -- NAME\`, one section for each. Figures of one machine on one day: the ratios are what counts.
`;

export const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

/** What it ran on, in a few words. */
export const machine = (): string =>
  `${cpus().length} cores (${cpus()[0]?.model.trim() || 'unknown'}), Node ${process.versions.node}`;

/** Replaces a benchmark's section of docs/benchmarks.md, or adds it. */
export function writeSection(name: string, title: string, lines: string[]): void {
  const begin = `<!-- ${name} -->`;
  const end = `<!-- end of ${name} -->`;
  const section = [begin, '', `## ${title}`, '', ...lines, '', end].join('\n');
  const text = existsSync(file) ? readFileSync(file, 'utf8') : head;
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  const next = from === -1 ? `${text}\n${section}\n` : text.slice(0, from) + section + text.slice(to + end.length);
  writeFileSync(file, next);
}
