import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { tooLarge } from './problem.ts';

/** What a route answers when a value a client hands over is above the limit. */
export const valueTooLarge = (field: string) => () => tooLarge(`\`${field}\``, limits.payloadBytes);

/**
 * A value of a body as it is stored: JSON text (D33). JSON.stringify writes U+0000 and lone surrogates as escapes, which a
 * text column takes.
 * @throws JobcellError PAYLOAD_TOO_LARGE, or BAD_REQUEST when the nesting is too deep to be written.
 */
export function valueText(field: string, value: unknown): string {
  let text: string;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = 'is nested too deeply';
    throw new JobcellError('BAD_REQUEST', `The body is not valid: \`${field}\` ${message}.`, {
      errors: [{ path: field, message }],
      cause: error,
    });
  }
  if (Buffer.byteLength(text) > limits.payloadBytes) throw valueTooLarge(field)();
  return text;
}
