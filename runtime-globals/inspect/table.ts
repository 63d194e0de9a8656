import {
  append,
  IntrinsicMap,
  isArray,
  mapForEach,
  mapGet,
  mapSet,
  max,
  ownKeys,
  repeat,
  setForEach,
  toText,
} from '../intrinsics.ts';
import { kindOf } from '../slots.ts';
import { inspect } from './inspect.ts';

const maxRows = 200;
const maxColumns = 50;

/** The rows of a value as `console.table` draws them; undefined for what is no table. */
export function tableOf(data: unknown, wanted: unknown): string | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const kind = kindOf(data);
  const rows: [index: string, value: unknown][] = [];
  const add = (index: unknown, value: unknown) => {
    if (rows.length < maxRows) append(rows, [toText(index), value]);
  };
  let count = 0;
  if (kind === 'map') mapForEach(data, (value, key) => add(count++, [key, value]));
  else if (kind === 'set') setForEach(data, (value) => add(count++, value));
  else {
    const keys = ownKeys(data) as string[];
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as string;
      if (typeof key === 'string' && !(isArray(data) && key === 'length'))
        add(key, (data as Record<string, unknown>)[key]);
    }
  }
  const index = kind === 'map' || kind === 'set' ? '(iteration index)' : '(index)';
  return draw(index, rows, isArray(wanted) ? (wanted as unknown[]) : undefined);
}

function draw(index: string, rows: [string, unknown][], wanted: unknown[] | undefined): string {
  const columns: string[] = [];
  const known = new IntrinsicMap<unknown, unknown>();
  const column = (name: string) => {
    if (mapGet(known, name) !== undefined || columns.length >= maxColumns) return;
    mapSet(known, name, true);
    append(columns, name);
  };
  let values = false;
  for (let i = 0; i < (wanted?.length ?? 0); i++) column(toText(wanted?.[i]));
  for (let i = 0; i < rows.length; i++) {
    const value = rows[i]?.[1];
    if (typeof value !== 'object' || value === null) values = true;
    else if (wanted === undefined) {
      const keys = ownKeys(value) as string[];
      for (let k = 0; k < keys.length; k++) {
        const key = keys[k] as string;
        if (typeof key === 'string' && !(isArray(value) && key === 'length')) column(key);
      }
    }
  }
  const head: string[] = [];
  append(head, index);
  for (let c = 0; c < columns.length; c++) append(head, columns[c] as string);
  if (values) append(head, 'Values');
  const cells: string[][] = [];
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] as [string, unknown];
    const value = row[1];
    const isObject = typeof value === 'object' && value !== null;
    const line: string[] = [];
    append(line, row[0]);
    for (let c = 0; c < columns.length; c++) {
      const name = columns[c] as string;
      append(line, isObject && name in value ? inspect((value as Record<string, unknown>)[name], 0) : '');
    }
    if (values) append(line, isObject ? '' : inspect(value, 0));
    append(cells, line);
  }
  return boxed(head, cells);
}

function boxed(head: string[], cells: string[][]): string {
  const widths: number[] = [];
  for (let c = 0; c < head.length; c++) {
    let width = (head[c] as string).length;
    for (let i = 0; i < cells.length; i++) width = max(width, ((cells[i] as string[])[c] as string).length);
    append(widths, width + 2);
  }
  const line = (left: string, middle: string, right: string) => {
    let text = left;
    for (let c = 0; c < widths.length; c++) text += `${c === 0 ? '' : middle}${repeat('─', widths[c] as number)}`;
    return text + right;
  };
  const row = (texts: string[]) => {
    let text = '│';
    for (let c = 0; c < widths.length; c++) {
      const cell = ` ${texts[c]}`;
      text += `${c === 0 ? '' : '│'}${cell}${repeat(' ', max(0, (widths[c] as number) - cell.length))}`;
    }
    return `${text}│`;
  };
  let text = `${line('┌', '┬', '┐')}\n${row(head)}\n${line('├', '┼', '┤')}`;
  for (let i = 0; i < cells.length; i++) text += `\n${row(cells[i] as string[])}`;
  return `${text}\n${line('└', '┴', '┘')}`;
}
