/** In the place of tr46, whose tables are 230 KB: Node knows them too, in the cell. */
import { ask } from '../host.ts';
import { indexOf, regExpExec, toLowerCase } from '../intrinsics.ts';

/** UTF-16 units of a domain that the cell is asked about; in DNS it has at most 253. */
const longest = 1_024;
const ascii = /^[\x20-\x7e]*$/;
/** What no domain may hold; the cell must not take it for another part of a URL. */
const forbidden = /[\0-\x20#%/:<>?@[\\\]^|\x7f]/;

/** The domain in ASCII, or null where it has none: UTS 46 without STD3 rules, and in lower case. */
export function toASCII(domain: string): string | null {
  const lower = toLowerCase(domain);
  if (regExpExec(ascii, domain) !== null && indexOf(lower, 'xn--') === -1) return lower;
  if (domain.length > longest || regExpExec(forbidden, domain) !== null) return null;
  return ask(['domain', domain]) || null;
}
