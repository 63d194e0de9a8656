import { JobcellError } from '../errors.ts';

/** One page of a list. `nextCursor` is null on the last page. */
export interface Page<Row> {
  items: Row[];
  nextCursor: string | null;
}

export interface PageRequest {
  limit: number;
  cursor?: string | undefined;
}

/** Types of the values a cursor carries, so that a made-up cursor never reaches the database. */
const checks = {
  uuid: (value: unknown) => typeof value === 'string' && isUuid(value),
  integer: (value: unknown) => Number.isSafeInteger(value),
  text: (value: unknown) => typeof value === 'string' && !value.includes('\0') && value.isWellFormed(),
} satisfies Record<string, (value: unknown) => boolean>;

type CursorShape = readonly (keyof typeof checks)[];

export const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

/** The sort key of a row, made opaque: base64url of a JSON array. */
const encodeCursor = (key: readonly (string | number)[]): string =>
  Buffer.from(JSON.stringify(key)).toString('base64url');

/**
 * The sort key a cursor stands for, or one null per value where there is no cursor (so that it can be a query's
 * parameters as it is).
 * @throws JobcellError BAD_REQUEST when the text is no cursor of this shape.
 */
export function decodeCursor(cursor: string | undefined, shape: CursorShape): (string | number | null)[] {
  if (cursor === undefined) return shape.map(() => null);
  const key = parse(cursor);
  if (Array.isArray(key) && key.length === shape.length && shape.every((type, i) => checks[type](key[i]))) return key;
  const message =
    'is no cursor of this list; take it from the `nextCursor` of an answer, or leave it out to begin anew';
  throw new JobcellError('BAD_REQUEST', `The query is not valid: \`cursor\` ${message}.`, {
    errors: [{ path: 'cursor', message }],
  });
}

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return undefined;
  }
}

/** Cuts the `limit + 1` rows that a list's query asked for to a page. `key` is what the query sorts by. */
export function pageOf<Row>(rows: Row[], limit: number, key: (row: Row) => readonly (string | number)[]): Page<Row> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last !== undefined ? encodeCursor(key(last)) : null };
}
