import type { Failure, IsolateCode } from '../src/sandbox/boundary.ts';
import { codeOf, failingPosition, isMapped, reportedMessage } from './errors.ts';
import { stringifyJson } from './intrinsics.ts';
import { describeThrown } from './text.ts';

/** JSON text of the `Failure` that a thrown value makes. A TypeError of ours has `typeErrorCode`. */
export function failureText(thrown: unknown, threw: boolean, typeErrorCode?: IsolateCode): string {
  const { name, message, stack } = describeThrown(thrown);
  const failure = {
    __proto__: null,
    name,
    message: reportedMessage(thrown, message),
    stack,
    mapped: isMapped(thrown, stack),
    position: failingPosition(thrown),
    threw,
  } as unknown as Failure;
  const code = codeOf(thrown) ?? (name === 'TypeError' ? typeErrorCode : undefined);
  if (code !== undefined) failure.code = code;
  return stringifyJson(failure);
}
