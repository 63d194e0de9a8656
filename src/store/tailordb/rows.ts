import { isAscii } from 'node:buffer';

/**
 * How a column's values stand in the JSON: numbers and booleans as such, everything else as PostgreSQL writes it, as a
 * string. int8 is a number where JavaScript can hold it exactly.
 */
type Form = 'text' | 'number' | 'int8' | 'bool' | 'timestamp';

/** A column of a result. */
export interface Column {
  name: string;
  /** Of its type, as pg_type has it. */
  oid: number;
}

const forms = new Map<number, Form>([
  [16, 'bool'],
  [20, 'int8'],
  ...[21, 23, 26, 700, 701].map((oid) => [oid, 'number'] as const),
  ...[1114, 1184].map((oid) => [oid, 'timestamp'] as const),
]);

/** Where a part ends: after a row, between two values of a row, or within a value that is a string. */
type PartEnd = 'row' | 'between' | 'within';

/** Rows, or parts of them, as JSON text that is whole in itself: `[[1,"a"],[2,"b"]]`. */
export interface RowsPart {
  text: string;
  /** The text holds the bytes of UTF-8, one character each, so that it takes no more memory than they do. */
  utf8: boolean;
  end: PartEnd;
}

/** A value of these forms has at most so many bytes; one that has more is taken as text. */
const smallBytes = 64;
/** A part may be so much longer than it should be: a small value with every byte escaped, and what closes the part. */
const slackBytes = 6 * smallBytes + 32;

const quote = 0x22;
const openBracket = 0x5b;
const backslash = 0x5c;
const escapes = Array.from({ length: 0x20 }, (_, code) =>
  Buffer.from(JSON.stringify(String.fromCharCode(code)).slice(1, -1)),
);

/**
 * Makes JSON of the rows of a result as their bytes come in, without ever holding a whole row: what it has made is taken
 * in parts as large as its buffer. A value of a gigabyte passes through like any other.
 */
export class RowEncoder {
  readonly #forms: Form[];
  readonly #out: Buffer;
  readonly #partBytes: number;
  #at = 0;
  #empty = true;
  /** What the current row still lacks. */
  #columnsLeft = 0;
  #column = 0;
  /** Bytes of the current value that are yet to come; -1 between two values. */
  #valueLeft = -1;
  #inText = false;
  #inRow = false;
  /** Collects what is needed as a whole. */
  readonly #scratch = Buffer.alloc(smallBytes);
  #scratched = 0;
  /** The last bytes of a part that ended within a character; they begin the next one. */
  #tail: Buffer | undefined;

  /** @param out where parts are made; nobody else's until the result has ended. */
  constructor(columns: Column[], out: Buffer) {
    this.#forms = columns.map(({ oid }) => forms.get(oid) ?? 'text');
    this.#partBytes = out.length - slackBytes;
    this.#out = out;
    this.#begin();
  }

  /** Whether it takes nothing more until `take` is called. */
  get full(): boolean {
    return this.#at >= this.#partBytes;
  }

  /** Whether there is anything to take. */
  get empty(): boolean {
    return this.#empty;
  }

  /** Takes bytes of DataRow messages' contents. @returns how many; fewer than there are when it is full. */
  write(bytes: Buffer): number {
    let at = 0;
    while (at < bytes.length && !this.full) {
      if (!this.#inRow) {
        at += this.#collect(bytes, at, 2);
        if (this.#scratched === 2) this.#startRow();
      } else if (this.#valueLeft === -1) {
        at += this.#collect(bytes, at, 4);
        if (this.#scratched === 4) this.#startValue();
      } else if (this.#inText) {
        at += this.#copyText(bytes, at);
      } else {
        at += this.#collect(bytes, at, this.#valueLeft);
        if (this.#scratched === this.#valueLeft) this.#writeSmall();
      }
    }
    return at;
  }

  /** What has been made since the last time. */
  take(): RowsPart {
    const end: PartEnd = this.#inText ? 'within' : this.#inRow ? 'between' : 'row';
    if (this.#inText) {
      this.#cutTail();
      this.#out[this.#at++] = quote;
    }
    this.#ascii(this.#inRow ? ']]' : ']');
    const made = this.#out.subarray(0, this.#at);
    const utf8 = !isAscii(made);
    const part: RowsPart = { text: made.toString('latin1'), utf8, end };
    this.#begin();
    return part;
  }

  #begin(): void {
    this.#at = 0;
    this.#empty = !this.#inRow;
    this.#ascii(this.#inRow ? '[[' : '[');
    if (!this.#inText) return;
    this.#out[this.#at++] = quote;
    if (this.#tail !== undefined) this.#at += this.#tail.copy(this.#out, this.#at);
    this.#tail = undefined;
  }

  /** Adds to the scratch buffer until it holds `size` bytes. @returns how many it took. */
  #collect(bytes: Buffer, from: number, size: number): number {
    const taken = Math.min(size - this.#scratched, bytes.length - from);
    bytes.copy(this.#scratch, this.#scratched, from, from + taken);
    this.#scratched += taken;
    return taken;
  }

  #startRow(): void {
    this.#scratched = 0;
    this.#inRow = true;
    this.#columnsLeft = this.#scratch.readInt16BE(0);
    this.#column = 0;
    this.#ascii(this.#empty ? '[' : ',[');
    this.#empty = false;
    if (this.#columnsLeft === 0) this.#endRow();
  }

  #endRow(): void {
    this.#inRow = false;
    this.#ascii(']');
  }

  #startValue(): void {
    this.#scratched = 0;
    const length = this.#scratch.readInt32BE(0);
    if (length === -1) {
      this.#separate();
      this.#ascii('null');
      this.#endValue();
      return;
    }
    this.#valueLeft = length;
    const form = this.#forms[this.#column] ?? 'text';
    this.#inText = form === 'text' || length > smallBytes;
    if (this.#inText) {
      this.#separate();
      this.#out[this.#at++] = quote;
      if (length === 0) this.#endText();
    } else if (length === 0) {
      this.#writeSmall();
    }
  }

  /** Right before a value, so that no part ends with a comma. One that begins between two values has them in a new array. */
  #separate(): void {
    if (this.#out[this.#at - 1] !== openBracket) this.#ascii(',');
  }

  #endValue(): void {
    this.#valueLeft = -1;
    this.#scratched = 0;
    this.#column++;
    if (--this.#columnsLeft === 0) this.#endRow();
  }

  #endText(): void {
    this.#inText = false;
    this.#out[this.#at++] = quote;
    this.#endValue();
  }

  #writeSmall(): void {
    const text = this.#scratch.toString('utf8', 0, this.#scratched);
    this.#separate();
    this.#at += this.#out.write(smallJson(this.#forms[this.#column] as Form, text), this.#at);
    this.#endValue();
  }

  /** Copies bytes of a string, with what JSON has to escape escaped. @returns how many. */
  #copyText(bytes: Buffer, from: number): number {
    const end = Math.min(bytes.length, from + this.#valueLeft);
    let at = from;
    while (at < end && !this.full) {
      const stop = Math.min(end, at + this.#partBytes - this.#at);
      let next = at;
      while (next < stop && !needsEscape(bytes[next] as number)) next++;
      bytes.copy(this.#out, this.#at, at, next);
      this.#at += next - at;
      at = next;
      if (at < stop) this.#escape(bytes[at++] as number);
    }
    this.#valueLeft -= at - from;
    if (this.#valueLeft === 0) this.#endText();
    return at - from;
  }

  #escape(byte: number): void {
    if (byte === quote || byte === backslash) {
      this.#out[this.#at++] = backslash;
      this.#out[this.#at++] = byte;
    } else {
      this.#at += (escapes[byte] as Buffer).copy(this.#out, this.#at);
    }
  }

  /** A character of UTF-8 that has not come to its end waits for the next part. */
  #cutTail(): void {
    for (let back = 1; back <= 3; back++) {
      const byte = this.#out[this.#at - back] as number;
      if (byte < 0x80) return;
      if (byte < 0xc0) continue;
      const length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
      if (length > back) {
        this.#tail = Buffer.from(this.#out.subarray(this.#at - back, this.#at));
        this.#at -= back;
      }
      return;
    }
  }

  #ascii(text: string): void {
    this.#at += this.#out.write(text, this.#at, 'latin1');
  }
}

const needsEscape = (byte: number) => byte < 0x20 || byte === quote || byte === backslash;

/** PostgreSQL's text of a value as JSON. What does not look as it should (NaN, an unusual DateStyle) stays a string. */
function smallJson(form: Form, text: string): string {
  switch (form) {
    case 'bool':
      return text === 't' ? 'true' : 'false';
    case 'number':
      return /^-?\d/.test(text) ? text : JSON.stringify(text);
    case 'int8':
      return Number.isSafeInteger(Number(text)) ? text : JSON.stringify(text);
    case 'timestamp':
      return JSON.stringify(isoTimestamp(text));
    case 'text':
      return JSON.stringify(text);
  }
}

/** `2024-01-31 12:00:00.5+00` as ISO 8601 has it, `2024-01-31T12:00:00.5Z`. */
const isoTimestamp = (text: string): string =>
  text.replace(/^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:\+00)?$/, (whole, date: string, time: string) =>
    whole.endsWith('+00') ? `${date}T${time}Z` : `${date}T${time}`,
  );
