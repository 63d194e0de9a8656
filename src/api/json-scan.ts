const quote = 34;
const backslash = 92;
const openBracket = 91;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;
const minus = 45;

/** What of a JSON text would cost its reader, or be changed by it. */
export interface JsonScan {
  /** The most arrays and objects that are open at once. */
  depth: number;
  /** The first number that is too large for JavaScript, as it is written; Infinity has no JSON. */
  overflow: string | undefined;
}

const number = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** Fewer characters than this, without an exponent, are no number beyond 1.8e308. */
const overflowChars = 308;

/**
 * Looks at a JSON text in one pass of constant cost per character. JSON.parse takes seconds for a few megabytes of
 * brackets, and the thread that it stalls keeps the leases of all runs.
 * Not a validator: of what is no JSON it says something or other.
 */
export function scanJson(text: string): JsonScan {
  let open = 0;
  let depth = 0;
  let overflow: string | undefined;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (char === quote) i = endOfString(text, i);
    else if (char === openBracket || char === openBrace) depth = Math.max(depth, ++open);
    else if (char === closeBracket || char === closeBrace) open--;
    else if (char === minus || (char >= 48 && char <= 57)) {
      const end = endOfNumber(text, i);
      if (overflow === undefined && mayOverflow(text, i, end)) overflow = overflowAt(text, i);
      i = end - 1;
    }
  }
  return { depth, overflow };
}

/** The index of the quote that ends the string which begins at `start`. */
function endOfString(text: string, start: number): number {
  let i = start + 1;
  for (; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (char === backslash) i++;
    else if (char === quote) break;
  }
  return i;
}

/** Digits, signs, points and exponents. */
function endOfNumber(text: string, start: number): number {
  let i = start + 1;
  for (; i < text.length; i++) {
    const char = text.charCodeAt(i);
    const digit = char >= 48 && char <= 57;
    if (!digit && char !== 46 && char !== 43 && char !== minus && char !== 101 && char !== 69) break;
  }
  return i;
}

function mayOverflow(text: string, start: number, end: number): boolean {
  if (end - start > overflowChars) return true;
  for (let i = start; i < end; i++) if ((text.charCodeAt(i) | 32) === 101) return true;
  return false;
}

function overflowAt(text: string, start: number): string | undefined {
  number.lastIndex = start;
  const [found] = number.exec(text) ?? [];
  return found !== undefined && !Number.isFinite(Number(found)) ? found : undefined;
}
