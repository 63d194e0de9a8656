import { append, floor, max, min, padEnd, padStart, repeat, round, sqrt } from '../intrinsics.ts';

/** Lines are filled up to so many characters, as Node does where there is no terminal. */
const lineChars = 80;
/** An object with no more than so many levels in it may stand on one line. */
const compactLevels = 3;

export interface Lines {
  /** How deep the line is indented that the object begins on. */
  indentation: number;
  /** How far below the object is the one in it that was written last: what Node goes by. */
  levels: number;
}

/** The entries of an object within its brackets: on one line where they fit, otherwise one line each. */
export function layOut(entries: string[], open: string, close: string, isList: boolean, lines: Lines): string {
  const laid = isList && entries.length > 6 ? inColumns(entries, lines.indentation) : entries;
  if (lines.levels < compactLevels && laid === entries) {
    const start = entries.length + lines.indentation + open.length + 10;
    if (fits(entries, start)) return `${open} ${join(entries, ', ')} ${close}`;
  }
  const newline = `\n${repeat(' ', lines.indentation)}`;
  return `${open}${newline}  ${join(laid, `,${newline}  `)}${newline}${close}`;
}

function fits(entries: string[], start: number): boolean {
  let total = entries.length + start;
  if (total + entries.length > lineChars) return false;
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i] as string;
    total += entry.length;
    if (total > lineChars) return false;
    for (let c = 0; c < entry.length; c++) if (entry[c] === '\n') return false;
  }
  return true;
}

function join(parts: string[], separator: string): string {
  let text = '';
  for (let i = 0; i < parts.length; i++) text += i === 0 ? parts[i] : `${separator}${parts[i]}`;
  return text;
}

/** The last entry of a list that is cut. */
const isRest = (entry: string | undefined) =>
  entry !== undefined && entry[0] === '.' && entry[1] === '.' && entry[2] === '.';
const isNumber = (entry: string) => {
  const first = entry[0] === '-' ? entry[1] : entry[0];
  return first !== undefined && first >= '0' && first <= '9';
};

/** A long list of short entries as a table without lines. The same array is handed back where that does not help. */
function inColumns(entries: string[], indentation: number): string[] {
  const rest = isRest(entries[entries.length - 1]);
  const count = rest ? entries.length - 1 : entries.length;
  let total = 0;
  let longest = 0;
  for (let i = 0; i < count; i++) {
    const { length } = entries[i] as string;
    total += length + 2;
    longest = max(longest, length);
  }
  const width = longest + 2;
  if (width * 3 + indentation >= lineChars || (total / width <= 5 && longest > 6)) return entries;
  const biased = max(width - 3 - sqrt(width - total / entries.length), 1);
  const columns = min(
    round(sqrt(2.5 * biased * count) / biased),
    floor((lineChars - indentation) / width),
    compactLevels * 4,
    15,
  );
  if (columns <= 1) return entries;
  const widths: number[] = [];
  let numbers = true;
  for (let i = 0; i < columns; i++) {
    let widest = 0;
    for (let e = i; e < count; e += columns) widest = max(widest, (entries[e] as string).length);
    append(widths, widest + 2);
  }
  for (let i = 0; i < count; i++) if (!isNumber(entries[i] as string)) numbers = false;
  const rows: string[] = [];
  for (let i = 0; i < count; i += columns) {
    const end = min(i + columns, count);
    let row = '';
    for (let e = i; e < end - 1; e++) {
      const cell = `${entries[e]}, `;
      row += numbers ? padStart(cell, widths[e - i] as number) : padEnd(cell, widths[e - i] as number);
    }
    const last = entries[end - 1] as string;
    row += numbers ? padStart(last, (widths[end - 1 - i] as number) - 2) : last;
    append(rows, row);
  }
  if (rest) append(rows, entries[entries.length - 1] as string);
  return rows;
}
