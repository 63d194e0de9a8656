import type { FetchFailure } from '../../src/globals/fetch-protocol.ts';
import { typeError } from '../errors.ts';
import { defineProperty, hidden, IntrinsicError } from '../intrinsics.ts';

/**
 * The TypeError that fetch is known for, with the reason as its cause. The stack tells the cause as well: it is what
 * remains of an error that ends an execution.
 */
export function fetchError({ message, cause }: FetchFailure): Error {
  const error = typeError(message);
  if (cause === undefined) return error;
  const reason = new IntrinsicError(cause.message);
  defineProperty(reason, 'code', hidden(cause.code));
  defineProperty(error, 'cause', hidden(reason));
  defineProperty(error, 'stack', hidden(`${error.stack}\nCaused by ${cause.code}: ${cause.message}`));
  return error;
}
