import { limits } from '../../src/limits.ts';
import { typeError } from '../errors.ts';
import { ask } from '../host.ts';
import { slice, toDomText, toWellFormed } from '../intrinsics.ts';
import { fetchError } from './fetch-error.ts';

/**
 * The URL of a request or a redirect, parsed and written again. Node does it, in the cell: a fetch needs no more of a URL
 * than that, and so it neither loads the library of `URL` nor depends on what a script does to the language's own.
 * @throws TypeError for what is none, and for one with a user name or a password unless they are allowed.
 */
export function absoluteUrl(value: unknown, credentials: 'refused' | 'allowed' = 'allowed'): string {
  const text = toWellFormed(toDomText(value));
  if (text.length > limits.fetchHeadBytes) {
    throw typeError(`The URL and the headers of a request have at most ${limits.fetchHeadBytes / 1024} KiB.`);
  }
  const parsed = ask(['url', text]);
  if (parsed === '') {
    throw fetchError({
      message: `Failed to parse URL from ${slice(text, 0, 200)}`,
      cause: { code: 'ERR_INVALID_URL', message: 'Invalid URL' },
    });
  }
  if (parsed[0] === 'c' && credentials === 'refused') {
    throw typeError('The URL holds a user name or a password; send an authorization header instead.');
  }
  return slice(parsed, 1);
}
