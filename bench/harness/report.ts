import { readFileSync, writeFileSync } from 'node:fs';

const file = new URL('../../docs/benchmarks.md', import.meta.url);
export const median = (values: number[]): number => quantile(values, 0.5);

/** The value that this share of the others is below. */
export function quantile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}

/** Three significant digits where a figure is small, whole ones with separators where it is not. */
export const figure = (value: number): string =>
  Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)));

export const range = (values: number[]): string => `${figure(Math.min(...values))} - ${figure(Math.max(...values))}`;

/** Lines of a Markdown table; every column but the first `left` ones is aligned to the right. */
export function table(columns: string[], rows: string[][], left = 1): string[] {
  const rules = columns.map((_, n) => (n < left ? '---' : '---:'));
  return [columns, rules, ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}

/** What a benchmark asks for; a ratio or a figure that is to be reached, or, with `most`, not to be passed. */
export interface Target {
  what: string;
  unit?: string;
  must: number;
  goal: number;
  moonshot?: number;
  most?: boolean;
  /** Undefined where it was not measured. */
  reached: number | undefined;
}

/** Lines of the table that compares what was asked for with what was reached. */
export function targets(list: Target[]): string[] {
  const rows = list.map(({ what, unit = '', must, goal, moonshot, most = false, reached }) => {
    const with_ = (value: number | undefined) => (value === undefined ? '' : `${figure(value)}${unit && ` ${unit}`}`);
    const meets = (bound: number | undefined) =>
      bound !== undefined && reached !== undefined && (most ? reached <= bound : reached >= bound);
    const verdict = meets(moonshot) ? 'moonshot' : meets(goal) ? 'goal' : meets(must) ? 'must' : 'missed';
    return [
      what,
      with_(must),
      with_(goal),
      with_(moonshot),
      reached === undefined ? 'not measured' : with_(reached),
      reached === undefined ? '' : verdict,
    ];
  });
  return table(['', 'must', 'goal', 'moonshot', 'reached', 'which is'], rows);
}

/** Replaces a benchmark's section of docs/benchmarks.md, or adds it. Whatever stands outside the markers stays. */
export function writeSection(name: string, title: string, lines: string[]): void {
  const begin = `<!-- ${name} -->`;
  const end = `<!-- end of ${name} -->`;
  const section = [begin, '', `## ${title}`, '', ...lines, '', end].join('\n');
  const text = readFileSync(file, 'utf8');
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  const next = from === -1 ? `${text}\n${section}\n` : text.slice(0, from) + section + text.slice(to + end.length);
  writeFileSync(file, next);
}
