import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { scanJson } from './json-scan.ts';

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
  const { depth, overflow } = scanJson(text);
  if (depth > limits.jsonDepth) throw badBody(`is nested more than ${limits.jsonDepth} levels deep`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // V8 shows what stands around the place; a body may hold a secret, and nothing of it belongs into an error.
    const reason = (error as SyntaxError).message.replace(/,? (\.\.\.)?"[\s\S]*"(\.\.\.)? is not valid JSON$/, '');
    throw new JobcellError('BAD_REQUEST', `The body is not JSON: ${reason}.`, { cause: error });
  }
  if (overflow === undefined) return value;
  const shown = overflow.length > 40 ? `${overflow.slice(0, 40)}…` : overflow;
  throw badBody(`holds the number ${shown}, which is larger than JavaScript has; send it as a string`);
}

const badBody = (message: string) =>
  new JobcellError('BAD_REQUEST', `The body is not valid: it ${message}.`, { errors: [{ path: '', message }] });
