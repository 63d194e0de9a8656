import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import type { Column } from '../store/tailordb/rows.ts';
import type { Tailordb } from './tailordb.ts';
import { type ClientAnswer, TailordbClient } from './tailordb-client.ts';
import type { ColumnKind, ElementKind, QueryAnswer } from './tailordb-protocol.ts';

const connectArguments = z.tuple([z.string()]);
const queryArguments = z.tuple([z.number(), z.string(), z.array(z.string().nullable())]);
const clientArguments = z.tuple([z.number()]);

type Clients = Map<number, TailordbClient>;

/**
 * One run's `tailordb.Client`s. SQL is not recorded (D12); what a body has not committed when it ends, or when its tree
 * is dropped, is rolled back.
 */
export function tailordbOperations(tailordb: Tailordb, workspaceId: string) {
  /** By the body that opened them: no other one can use them. */
  const byBody = new Map<AbortSignal, Clients>();
  let nextClient = 0;
  let open = 0;

  function clientsOf(signal: AbortSignal): Clients {
    const known = byBody.get(signal);
    if (known !== undefined) return known;
    const made: Clients = new Map();
    byBody.set(signal, made);
    signal.addEventListener('abort', () => endAll(signal), { once: true });
    return made;
  }

  function endAll(signal: AbortSignal): void {
    const clients = byBody.get(signal);
    byBody.delete(signal);
    for (const id of [...(clients?.keys() ?? [])]) end(clients as Clients, id);
  }

  function end(clients: Clients, id: number): void {
    const client = clients.get(id);
    if (client === undefined) return;
    clients.delete(id);
    open--;
    client.end();
  }

  function find(signal: AbortSignal, id: number): TailordbClient {
    const client = byBody.get(signal)?.get(id);
    if (client === undefined)
      throw new JobcellError('BAD_REQUEST', 'The client is not connected; call connect() first.');
    return client;
  }

  return {
    /** `[namespace]` -> the client's number. @throws JobcellError NAMESPACE_NOT_FOUND, OVERLOADED ... */
    async tailordbConnect(args: unknown, signal: AbortSignal): Promise<number> {
      const [namespace] = connectArguments.parse(args);
      signal.throwIfAborted();
      if (open >= limits.tailordbRunConnections) {
        throw new JobcellError(
          'BAD_REQUEST',
          `This run has ${open} TailorDB clients connected, as many as it may; call end() on one of them first.`,
        );
      }
      const clients = clientsOf(signal);
      const id = nextClient++;
      const client = new TailordbClient(() => tailordb.connect(workspaceId, namespace, signal));
      clients.set(id, client);
      open++;
      try {
        await client.connect();
      } catch (error) {
        end(clients, id);
        throw error;
      }
      return id;
    },

    /** `[client, sql, parameters]` -> the first part of the result */
    async tailordbQuery(args: unknown, signal: AbortSignal): Promise<QueryAnswer> {
      const [id, sql, parameters] = queryArguments.parse(args);
      return toAnswer(await find(signal, id).execute(sql, parameters), true);
    },

    /** `[client]` -> the next part of the result */
    async tailordbRows(args: unknown, signal: AbortSignal): Promise<QueryAnswer> {
      const [id] = clientArguments.parse(args);
      return toAnswer(await find(signal, id).next(), false);
    },

    /** `[client]` */
    async tailordbEnd(args: unknown, signal: AbortSignal): Promise<null> {
      const [id] = clientArguments.parse(args);
      end(byBody.get(signal) ?? new Map(), id);
      return null;
    },

    close(): void {
      for (const signal of [...byBody.keys()]) endAll(signal);
    },
  };
}

function toAnswer(answer: ClientAnswer, first: boolean): QueryAnswer {
  if ('failed' in answer) return answer;
  const { columns, rows, end } = answer;
  return {
    columns: first ? columns.map(({ name, oid }: Column) => [name, kinds.get(oid) ?? 'plain']) : null,
    rows: rows && { text: rows.text, utf8: rows.utf8, cut: rows.end },
    end,
  };
}

/** Types that need more than JSON carries, as pg_type has them. What is not here is a string as PostgreSQL writes it. */
const arrays: Record<ElementKind, number[]> = {
  // text, varchar, bpchar, name, char, numeric, uuid, date, time, timetz, interval
  text: [1009, 1015, 1014, 1003, 1002, 1231, 2951, 1182, 1183, 1270, 1187],
  number: [1005, 1007, 1028, 1021, 1022],
  int8: [1016],
  bool: [1000],
  timestamp: [1115, 1185],
  json: [199, 3807],
};
const kinds = new Map<number, ColumnKind>([
  [114, 'json'],
  [3802, 'json'],
  ...Object.entries(arrays).flatMap(([kind, oids]) =>
    oids.map((oid) => [oid, `${kind as ElementKind}[]`] as [number, ColumnKind]),
  ),
]);
