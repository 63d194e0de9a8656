import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import type { HostAnswer, HostCall } from '../sandbox/protocol.ts';

/** The host calls that are not recorded (their position is null): what scripts of every kind may ask of the server. */
export interface HostOperations {
  /** For one run, or one Function, of a workspace. Costs nothing until something is called. */
  open(workspaceId: string): HostSession;
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

/** What one of the globals asks of the server: calls by name, each with the JSON value of its arguments and the signal of the body that calls. */
export type OperationSet = {
  [op: string]: ((args: unknown, signal: AbortSignal) => unknown) | undefined;
  /** Ends all that the run has of it. */
  close?: (() => void) | undefined;
};

/** @param sets each opened for every run */
export function createHostOperations(sets: ((workspaceId: string) => OperationSet)[], logger: Logger): HostOperations {
  return {
    open(workspaceId) {
      const opened = sets.map((openSet) => openSet(workspaceId));
      const operations = new Map(opened.flatMap(({ close, ...calls }) => Object.entries(calls)));
      return {
        async handle({ op, args }, signal) {
          const operation = operations.get(op);
          if (operation === undefined) return failed('TypeError', `${op} is not a call that a script can make`);
          try {
            return { value: JSON.stringify(await operation(JSON.parse(args), signal)) };
          } catch (error) {
            // Nobody waits for it any more.
            if (signal.aborted) return failed('Error', `${op} was ended.`);
            if (error instanceof JobcellError) return coded(error);
            logger.error({ err: error, op }, 'a host call failed for a reason of the server');
            return failed('Error', `${op} failed for a reason of the server; its log has the cause.`);
          }
        },
        close() {
          for (const { close } of opened) close?.();
        },
      };
    },
  };
}

/** An error of the script's making, in its own words. */
const coded = ({ message, code }: JobcellError): HostAnswer => ({ error: { name: 'Error', message, stack: '', code } });
const failed = (name: string, message: string): HostAnswer => ({ error: { name, message, stack: '' } });
