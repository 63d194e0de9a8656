import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import type { AddressRules } from './addresses.ts';
import type { Lookup } from './name-lookup.ts';

const connectTimeoutMs = 10_000;

/** A connection that was not made, or dropped, because scripts may not reach its address. */
export class RefusedAddressError extends Error {
  override readonly name = 'RefusedAddressError';
  readonly host: string;

  constructor(host: string) {
    super(`${host} is not a public address`);
    this.host = host;
  }
}

/** No connection came about. undici looks at the code, too. */
export class ConnectFailedError extends Error {
  readonly host: string;
  readonly code: string | undefined;

  /** @param host with its port where the URL has one */
  constructor(host: string, cause: Error) {
    super('no connection', { cause });
    this.host = host;
    this.code = (cause as NodeJS.ErrnoException).code;
  }
}

/**
 * An undici connector that opens connections to allowed addresses only. It resolves the name itself and hands exactly
 * the checked addresses to the socket, so a name that answers differently the next time (DNS rebinding) gains nothing;
 * every redirect comes through here as well.
 */
export function guardedConnector(rules: AddressRules, lookup: Lookup): buildConnector.connector {
  return (options, callback) => {
    const host = options.hostname.replace(/^\[(.*)\]$/, '$1');
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80);
    const allows = (address: string) => rules.allows({ host, port, address });
    // A literal address is connected to without a lookup.
    if (isIP(host) !== 0 && !allows(host)) {
      callback(new RefusedAddressError(host), null);
      return;
    }
    const connect = buildConnector({
      allowH2: false,
      timeout: connectTimeoutMs,
      lookup: guardedLookup(host, allows, lookup),
    });
    connect(options, (...[error, socket]) => {
      if (error !== null) {
        callback(new ConnectFailedError(options.host ?? host, error), null);
      } else if (allows(socket.remoteAddress ?? '')) {
        callback(null, socket);
      } else {
        socket.destroy();
        callback(new RefusedAddressError(host), null);
      }
    });
  };
}

function guardedLookup(host: string, allows: (address: string) => boolean, lookup: Lookup): LookupFunction {
  return (name, options, callback) => {
    lookup(name, { ...options, all: true }, (error, addresses) => {
      const allowed = error === null ? addresses.filter(({ address }) => allows(address)) : [];
      const [first] = allowed;
      if (error !== null) callback(error, []);
      else if (first === undefined) callback(new RefusedAddressError(host), []);
      else if (options.all) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}
