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
 * are stored and never merged into an object of ours.
 * @throws JobcellError BAD_REQUEST
 */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  const text = decodeUtf8(bytes, 'body');
  try {
    return JSON.parse(text);
  } catch (error) {
    const reason = (error as SyntaxError).message;
    throw new JobcellError('BAD_REQUEST', `The body is not JSON: ${reason}.`, { cause: error });
  }
}
