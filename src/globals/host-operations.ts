import type { Logger } from 'pino';
import type { HostAnswer, HostCall } from '../sandbox/protocol.ts';
import type { FetchBroker } from './fetch-broker.ts';
import { fetchOperations } from './fetch-operations.ts';

/** The host calls that are not recorded (their position is null): what scripts of every kind may ask of the server. */
export interface HostOperations {
  /** For one run, or one Function. Costs nothing until something is called. */
  open(): HostSession;
}

/** What one run holds of the server: connections, and later sessions of other kinds. */
export interface HostSession {
  /**
   * Answers a call. Never rejects. The signal ends what the call began, its response included: it belongs to the body
   * that called.
   */
  handle(call: Pick<HostCall, 'op' | 'args'>, signal: AbortSignal): Promise<HostAnswer>;
  /** Ends everything of the run. */
  close(): void;
}

type Operation = (args: unknown, signal: AbortSignal) => Promise<unknown>;

export function createHostOperations(parts: { fetch: FetchBroker; logger: Logger }): HostOperations {
  return {
    open() {
      const fetching = fetchOperations(parts.fetch);
      const { fetch, fetchWrite, fetchRead, fetchCancel } = fetching;
      const operations = new Map<string, Operation>(Object.entries({ fetch, fetchWrite, fetchRead, fetchCancel }));
      return {
        async handle({ op, args }, signal) {
          const operation = operations.get(op);
          if (operation === undefined) return failed('TypeError', `${op} is not a call that a script can make`);
          try {
            return { value: JSON.stringify(await operation(JSON.parse(args), signal)) };
          } catch (error) {
            parts.logger.error({ err: error, op }, 'a host call failed for a reason of the server');
            return failed('Error', `${op} failed for a reason of the server; its log has the cause.`);
          }
        },
        close: fetching.close,
      };
    },
  };
}

const failed = (name: string, message: string): HostAnswer => ({ error: { name, message, stack: '' } });
