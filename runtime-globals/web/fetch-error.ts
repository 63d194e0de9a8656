import type { FetchFailure } from '../../src/globals/fetch-protocol.ts';
import { typeError, wordedError } from '../errors.ts';
import { defineProperty, hidden, IntrinsicError } from '../intrinsics.ts';

/**
 * The TypeError that fetch is known for, in the words that programs look for, with the reason as its cause. The stack tells
 * the cause as well, and so does the message of an error that ends an execution.
 */
export function fetchError({ message, cause }: FetchFailure): Error {
  if (cause === undefined) return typeError(message);
  const error = wordedError(message, cause.message);
  const reason = new IntrinsicError(cause.message);
  defineProperty(reason, 'code', hidden(cause.code));
  defineProperty(error, 'cause', hidden(reason));
  defineProperty(error, 'stack', hidden(`${error.stack}\nCaused by ${cause.code}: ${cause.message}`));
  return error;
}
