import type { QueryAnswer, QueryPart, SqlFailure } from '../../src/globals/tailordb-protocol.ts';
import { limits } from '../../src/limits.ts';
import { codedError, typeError } from '../errors.ts';
import { callAsync } from '../host.ts';
import { inTurn } from '../in-turn.ts';
import {
  append,
  defineProperty,
  hidden,
  IntrinsicError,
  isArray,
  once,
  ownKeys,
  stringifyJson,
} from '../intrinsics.ts';
import { asNativeClass } from '../native.ts';
import { quoted } from '../quoted.ts';
import { utf8Bytes } from '../text.ts';
import { parametersJson } from './sql-parameters.ts';
import { rowsOf } from './sql-rows.ts';

interface QueryResult {
  rows: unknown[];
  command: string;
  rowCount: number;
}

/** `tailordb` (behaviour.md 2). SQL is not recorded (D12): a body that is run again runs it again. */
export const makeTailordb = () => ({ Client: asNativeClass('Client', clientClass()) });

const clientClass = once(() => {
  return class Client {
    readonly #namespace: string;
    /** JSON text of the server's number of it, while it is connected. */
    #connected: string | undefined;
    /** One thing after the other, as PostgreSQL has it. */
    readonly #next = inTurn();

    constructor(config: { namespace: string }) {
      this.#namespace = quoted('tailordb.Client: config.namespace', config?.namespace);
    }

    /** @throws when there is no such namespace, or no connection is to be had. */
    connect(): Promise<void> {
      return this.#next(async () => {
        if (this.#connected !== undefined) return;
        this.#connected = `${(await call('tailordbConnect', `[${this.#namespace}]`)) as number}`;
      });
    }

    /** What is not committed is rolled back. */
    end(): Promise<void> {
      return this.#next(async () => {
        const connected = this.#connected;
        this.#connected = undefined;
        if (connected !== undefined) await call('tailordbEnd', `[${connected}]`);
      });
    }

    /** @throws an error of the name PostgresError when PostgreSQL refuses the statement. */
    async queryObject(sql: string, args?: readonly unknown[]): Promise<QueryResult> {
      if (typeof sql !== 'string') throw typeError('queryObject: its first argument must be SQL, a string.');
      if (args !== undefined && args !== null && !isArray(args)) {
        throw typeError('queryObject: its second argument must be an array of parameters.');
      }
      const text = quotedSql(sql);
      const parameters = parametersJson((args ?? []) as unknown[]);
      if (text.length + utf8Bytes(parameters, limits.payloadBytes) > limits.payloadBytes) throw tooLarge();
      return this.#next(() => this.#query(`${text},${parameters}`));
    }

    async #query(statement: string): Promise<QueryResult> {
      if (this.#connected === undefined) throw new IntrinsicError('The client is not connected; call connect() first.');
      const parts: QueryPart[] = [];
      let part = await this.#part('tailordbQuery', `[${this.#connected},${statement}]`);
      const columns = part.columns ?? [];
      append(parts, part);
      while (part.end === null) {
        part = await this.#part('tailordbRows', `[${this.#connected}]`);
        append(parts, part);
      }
      const { command, rowCount } = part.end;
      return { rows: rowsOf(columns, parts), command, rowCount };
    }

    async #part(op: string, args: string): Promise<QueryPart> {
      const answer = (await call(op, args)) as QueryAnswer;
      if ('failed' in answer) throw postgresError(answer.failed);
      return answer;
    }
  };
});

const call = (op: string, args: string) => callAsync({ op, args, payload: null, recorded: false });

/** An error with PostgreSQL's own fields, as PostgreSQL's drivers have them. Code and position also stand in its stack. */
function postgresError(failure: SqlFailure): Error {
  const error = new IntrinsicError(failure.message);
  defineProperty(error, 'name', hidden('PostgresError'));
  const names = ownKeys(failure) as (keyof SqlFailure)[];
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as keyof SqlFailure;
    if (name !== 'message') defineProperty(error, name, hidden(failure[name]));
  }
  const at = failure.position === undefined ? '' : ` at character ${failure.position} of the SQL`;
  const stack = error.stack ?? '';
  defineProperty(error, 'stack', hidden(`${stack}\n    PostgreSQL code ${failure.code}${at}`));
  return error;
}

function quotedSql(sql: string): string {
  if (utf8Bytes(sql, limits.payloadBytes) > limits.payloadBytes) throw tooLarge();
  return stringifyJson(sql);
}

function tooLarge(): Error {
  const mib = limits.payloadBytes / 1024 / 1024;
  return codedError(
    'PAYLOAD_TOO_LARGE',
    `A statement has at most ${mib} MiB, its parameters included; send it in parts.`,
  );
}
