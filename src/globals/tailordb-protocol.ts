/** What `tailordb.Client` of runtime-globals and the server's half of it say to each other, as JSON. Types only. */

/** What the isolate makes of a column's values; they come as null, a number, a boolean or a string. */
export type ColumnKind = 'plain' | 'json' | `${ElementKind}[]`;
export type ElementKind = 'text' | 'number' | 'int8' | 'bool' | 'timestamp' | 'json';

/** The result of a statement, or a part of it; `tailordbRows` answers the next one, until one has an `end`. */
export interface QueryPart {
  /** Of the result's columns, in their order; only with the first part. */
  columns: [name: string, kind: ColumnKind][] | null;
  /**
   * JSON text of rows, each an array of values, that stays text until all parts are there. With `utf8` it holds the
   * bytes of UTF-8, one character each. `cut` says where the last row goes on, if it does: with its next value, or with
   * the rest of its last one, a string.
   */
  rows: { text: string; utf8: boolean; cut: 'row' | 'between' | 'within' } | null;
  end: { command: string; rowCount: number } | null;
}

/** What PostgreSQL says of a statement that failed, with its own names of the fields. */
export interface SqlFailure {
  message: string;
  /** SQLSTATE. */
  code: string;
  /** Character of the statement, from 1. */
  position?: string;
  severity?: string;
  detail?: string;
  hint?: string;
  table?: string;
  column?: string;
  dataType?: string;
  constraint?: string;
  where?: string;
}

export type QueryAnswer = QueryPart | { failed: SqlFailure };
