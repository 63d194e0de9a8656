import { limits } from '../limits.ts';
import { tooLarge } from './problem.ts';

/** What a route answers when a value a client hands over is above the limit. */
export const valueTooLarge = (field: string) => () => tooLarge(`\`${field}\``, limits.payloadBytes);

/**
 * A value of a body as it is stored: JSON text (D33). JSON.stringify writes U+0000 and lone surrogates as escapes, which a
 * text column takes.
 * @throws JobcellError PAYLOAD_TOO_LARGE
 */
export function valueText(field: string, value: unknown): string {
  const text = JSON.stringify(value);
  if (Buffer.byteLength(text) > limits.payloadBytes) throw valueTooLarge(field)();
  return text;
}
