import { JobcellError } from '../errors.ts';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @throws JobcellError BAD_REQUEST */
export function decodeUtf8(bytes: Buffer, what: string): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw new JobcellError('BAD_REQUEST', `The ${what} is not valid UTF-8; send it in that encoding.`, {
      cause: error,
    });
  }
}

/**
 * The body as JSON; an empty one is undefined. Without fastify's refusal of `__proto__` and `constructor` keys: values
 * are stored and never merged into an object of ours. Numbers are JavaScript's, as they are for the scripts: digits beyond
 * their precision are lost, and those that are too large for it are refused.
 * @throws JobcellError BAD_REQUEST
 */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  const text = decodeUtf8(bytes, 'body');
  try {
    // The reviver is slow, and a number that may be too large is rare.
    return mayOverflow.test(text) ? JSON.parse(text, refuseInfinity) : JSON.parse(text);
  } catch (error) {
    if (error instanceof JobcellError) throw error;
    // V8 shows what stands around the place; a body may hold a secret, and nothing of it belongs into an error.
    const reason = (error as SyntaxError).message.replace(/,? (\.\.\.)?"[\s\S]*"(\.\.\.)? is not valid JSON$/, '');
    throw new JobcellError('BAD_REQUEST', `The body is not JSON: ${reason}.`, { cause: error });
  }
}

/** Where there is no such digit sequence, no number of the text is beyond 1.8e308. */
const mayOverflow = /[eE]\+?\d{3}|\d{200}/;

/** Infinity has no JSON: `1e400` would be stored as null. */
function refuseInfinity(key: string, value: unknown): unknown {
  if (value !== Number.POSITIVE_INFINITY && value !== Number.NEGATIVE_INFINITY) return value;
  const message = 'is a number larger than JavaScript has; send it as a string';
  throw new JobcellError('BAD_REQUEST', `The body is not valid: \`${key}\` ${message}.`, {
    errors: [{ path: key, message }],
  });
}
