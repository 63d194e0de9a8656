import { append, getOwnPropertyDescriptor } from '../intrinsics.ts';

/** A line is cut at 8 KB anyway, and a script must not spend its memory on one. */
export const maxChars = 16_384;
export const maxEntries = 100;

export interface Writer {
  /** The text of a value within the one that is being written. */
  write: (value: unknown) => string;
  depth: number;
  /** The objects that are open, outermost first. */
  open: object[];
  /** Objects that something inside of them refers back to, by number. */
  circular: Map<unknown, unknown>;
  circles: number;
  indentation: number;
  /** The level of the object that was begun last. */
  last: number;
  chars: number;
}

export function inner(writer: Writer, work: () => void): void {
  writer.indentation += 2;
  work();
  writer.indentation -= 2;
}

export function named(writer: Writer, name: string, value: unknown): string {
  writer.indentation += 2;
  const text = `${name}: ${writer.write(value)}`;
  writer.indentation -= 2;
  return text;
}

export function member(writer: Writer, value: object, key: PropertyKey): string {
  writer.indentation += 2;
  const descriptor = getOwnPropertyDescriptor(value, key);
  const text = descriptor === undefined ? 'undefined' : descriptorText(writer, descriptor);
  writer.indentation -= 2;
  return text;
}

function descriptorText(writer: Writer, { get, set, value }: PropertyDescriptor): string {
  if (get !== undefined) return set === undefined ? '[Getter]' : '[Getter/Setter]';
  return set === undefined ? writer.write(value) : '[Setter]';
}

export function more(entries: string[], count: number, noun: string): void {
  if (count > 0) append(entries, `... ${count} more ${noun}${count === 1 ? '' : 's'}`);
}
