import { stripVTControlCharacters, styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Colours where stdout is a terminal and NO_COLOR is not set (styleText looks at both). */
export const paint = (style: Style, text: string): string => styleText(style, text, { stream: process.stdout });

/** Columns of the terminal, within what reads well. */
export const width = (): number => Math.max(60, Math.min(process.stdout.columns ?? 100, 110));

const visibleLength = (text: string): number => [...stripVTControlCharacters(text)].length;

export const padEnd = (text: string, length: number): string =>
  text + ' '.repeat(Math.max(0, length - visibleLength(text)));

export const padStart = (text: string, length: number): string =>
  ' '.repeat(Math.max(0, length - visibleLength(text))) + text;

/** Cuts plain text to `length` characters. Control characters of a script's text never reach the terminal. */
export function cut(text: string, length: number): string {
  const characters = [...text.replace(/\p{Cc}/gu, ' ')];
  return characters.length <= length
    ? characters.join('')
    : `${characters.slice(0, Math.max(0, length - 1)).join('')}…`;
}

export function duration(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

export interface Column {
  title: string;
  align?: 'right';
}

/** A table of painted cells: columns as wide as their widest cell, a rule below the head. */
export function table(columns: Column[], rows: string[][]): string {
  const widths = columns.map(({ title }, index) => {
    return Math.max(title.length, ...rows.map((row) => visibleLength(row[index] ?? '')));
  });
  const line = (cells: string[]) =>
    cells
      .map((cell, index) => (columns[index]!.align === 'right' ? padStart : padEnd)(cell, widths[index]!))
      .join('  ');
  const head = line(columns.map(({ title }) => paint('dim', title)));
  const rule = paint('dim', widths.map((length) => '─'.repeat(length)).join('──'));
  return [head, rule, ...rows.map(line)].map((text) => `  ${text.trimEnd()}`).join('\n');
}
