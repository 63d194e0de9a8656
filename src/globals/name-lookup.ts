import { type LookupAddress, lookup as systemLookup } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import type { AddressRules } from './addresses.ts';

/** Finds the addresses of a name. */
export type Lookup = (
  host: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** Of one question to one of the DNS servers, ms, and how often it is asked. */
const questionMs = 3_000;
const questionTries = 2;

/** What DNS servers and the way to them can be the cause of, as the system's resolver says it. */
const unknownName = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME', 'EBADQUERY']);

/**
 * The system's resolver takes a thread for as long as a name's server lets it wait, and the process has four of them, for
 * its files and its logins to PostgreSQL as well. So names that a script has thought up are asked of the DNS servers
 * directly, which takes none. The system's resolver, with its hosts file and search list, is for names that the operator
 * has opened, and for those without a dot, which belong to nobody outside.
 *
 * @param servers DNS servers, `address` or `address:port`; the system's by default
 */
export function nameLookup(rules: AddressRules, servers?: string[]): Lookup {
  const resolver = new Resolver({ timeout: questionMs, tries: questionTries });
  if (servers !== undefined) resolver.setServers(servers);
  return (host, options, callback) => {
    if (rules.names(host) || !/[^.]\./.test(host.replace(/\.$/, ''))) {
      systemLookup(host, options, callback);
      return;
    }
    askServers(resolver, host).then(
      (addresses) => callback(null, addresses),
      (error: NodeJS.ErrnoException) => callback(error, []),
    );
  };
}

/** IPv4 first: not every machine has a way to IPv6. */
async function askServers(resolver: Resolver, host: string): Promise<LookupAddress[]> {
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const found = answers.flatMap((answer, i) =>
    answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family: i === 0 ? 4 : 6 })) : [],
  );
  if (found.length > 0) return found;
  const codes = answers.map((answer) =>
    answer.status === 'rejected' ? (answer.reason as { code?: string }).code : '',
  );
  const code = codes.every((each) => each === '' || unknownName.has(each ?? '')) ? 'ENOTFOUND' : 'EAI_AGAIN';
  throw Object.assign(new Error(`${host} could not be looked up`), { code });
}
