import {
  getOwnPropertyDescriptor,
  getPrototypeOf,
  objectOf,
  slice,
  stringifyJson,
  toFloat,
  toInteger,
  toNumber,
  toText,
} from '../intrinsics.ts';
import { inspect } from './inspect.ts';
import { primitive } from './names.ts';

/** Formatting stops here: a line is cut at 8 KB anyway. */
const maxChars = 16_384;

/** The text of a console call: `%` directives of the first argument, then everything else, separated by spaces. */
export function formatArguments(values: unknown[]): string {
  let text = '';
  let next = 0;
  const format = values[0];
  if (typeof format === 'string') {
    next = 1;
    if (values.length === 1) return format;
    let from = 0;
    for (let i = 0; i < format.length - 1 && text.length < maxChars; i++) {
      if (format[i] !== '%') continue;
      const directive = format[i + 1] as string;
      if (directive === '%') {
        text += slice(format, from, i + 1);
      } else {
        const formatted = next < values.length ? formatDirective(directive, values[next]) : undefined;
        if (formatted === undefined) continue;
        text += slice(format, from, i) + formatted;
        next++;
      }
      i++;
      from = i + 1;
    }
    text += slice(format, from);
  }
  for (; next < values.length && text.length < maxChars; next++) {
    if (next > 0) text += ' ';
    const value = values[next];
    text += typeof value === 'string' ? value : inspect(value);
  }
  return text;
}

function formatDirective(directive: string, value: unknown): string | undefined {
  switch (directive) {
    case 's':
      return stringOf(value);
    case 'd':
      if (typeof value === 'bigint') return `${value}n`;
      return typeof value === 'symbol' ? 'NaN' : primitive(numberOf(value, toNumber));
    case 'i':
      if (typeof value === 'bigint') return `${value}n`;
      return typeof value === 'symbol' ? 'NaN' : primitive(numberOf(value, toInteger));
    case 'f':
      return typeof value === 'symbol' ? 'NaN' : primitive(numberOf(value, toFloat));
    case 'j':
      return json(value);
    case 'o':
      return inspect(value, 4);
    case 'O':
      return inspect(value);
    case 'c':
      return '';
    default:
      return undefined;
  }
}

function numberOf(value: unknown, convert: (value: string) => number): number {
  try {
    return convert(value as string);
  } catch {
    return Number.NaN;
  }
}

/** As text where the script says what that is, otherwise as an object is shown. */
function stringOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null)
    return typeof value === 'function' ? safeText(value) : primitive(value);
  return hasOwnText(value) ? safeText(value) : inspect(value, 0);
}

function hasOwnText(value: object): boolean {
  for (let at: object | null = value; at !== null; at = getPrototypeOf(at) as object | null) {
    if (at === objectOf.prototype) return false;
    if (getOwnPropertyDescriptor(at, 'toString') === undefined) continue;
    const maker: unknown = getOwnPropertyDescriptor(at, 'constructor')?.value;
    return typeof maker !== 'function' || builtIn(maker) === false;
  }
  return false;
}

const builtIn = (maker: object) => maker === Array || maker === Date || maker === RegExp || maker === Error;

function safeText(value: object): string {
  try {
    return toText(value);
  } catch {
    return inspect(value, 0);
  }
}

function json(value: unknown): string {
  try {
    return toText(stringifyJson(value) as string | undefined);
  } catch {
    return '[Circular]';
  }
}
