import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { JobcellError } from '../errors.ts';

/** What a connection is about to go to: the URL's host name, the port, and the address behind the name. */
interface Target {
  host: string;
  port: number;
  address: string;
}

/** Which addresses scripts may connect to: public ones, and what the operator opened. */
export interface AddressRules {
  allows(target: Target): boolean;
  /** Whether the operator opened this host by its name. */
  names(host: string): boolean;
}

/** One entry of JOBCELL_FETCH_ALLOW. Without a port it is about all of them. */
type Opening = { port: number | null } & ({ host: string } | { addresses: BlockList });

/** IANA's registry of special-purpose IPv4 addresses, and multicast. */
const special4 = networks([
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]);
/** The only part of IPv6 that is public unicast; everything else (ULA, link-local, multicast ...) is refused. */
const global6 = networks(['2000::/3']);
/** Special ones within it: protocol assignments with Teredo, documentation, and 6to4, which leads to any IPv4 address. */
const special6 = networks(['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']);

/** What listens on this machine is not meant for scripts, also where its address is a public one. */
const machineAddresses = () =>
  Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? []);

/**
 * @param allowList text of JOBCELL_FETCH_ALLOW
 * @param ownAddresses of this machine; they may change
 * @throws JobcellError BAD_REQUEST that names a wrong entry.
 */
export function addressRules(allowList: string, ownAddresses: () => string[] = machineAddresses): AddressRules {
  const openings = allowList
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .map(parseOpening);
  return {
    allows(target) {
      const address = canonical(target.address);
      const host = hostName(target.host);
      if (openings.some((opening) => opens(opening, host, target.port, address))) return true;
      return isPublic(address) && !ownAddresses().some((own) => canonical(own) === address);
    },
    names: (host) => openings.some((opening) => 'host' in opening && opening.host === hostName(host)),
  };
}

/** Whether anybody on the internet could be reached at this address. */
function isPublic(address: string): boolean {
  if (isIP(address) === 4) return !special4.check(address);
  return isIP(address) === 6 && global6.check(address, 'ipv6') && !special6.check(address, 'ipv6');
}

function opens(opening: Opening, host: string, port: number, address: string): boolean {
  if (opening.port !== null && opening.port !== port) return false;
  return 'host' in opening ? opening.host === host : opening.addresses.check(address, family(address));
}

/**
 * Without a zone, and the IPv4 address where one is packed into IPv6: as a mapped address (::ffff:0:0/96), which the
 * kernel connects to over IPv4, or for a translator (64:ff9b::/96), which does.
 */
function canonical(address: string): string {
  const bare = address.replace(/%.*$/, '');
  if (isIP(bare) !== 6) return bare;
  const short = new URL(`http://[${bare}]`).hostname.slice(1, -1);
  const packed = /^(?:::ffff:|64:ff9b::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(short);
  if (packed === null) return short;
  return packed
    .slice(1)
    .flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255])
    .join('.');
}

function family(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

const hostName = (host: string) => host.toLowerCase().replace(/\.$/, '');

function networks(cidrs: string[]): BlockList {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [address, prefix] = cidr.split('/') as [string, string];
    list.addSubnet(address, Number(prefix), family(address));
  }
  return list;
}

/** `host`, `host:port`, `address`, `address:port`, `[ipv6]:port` or `network/prefix`. */
function parseOpening(entry: string): Opening {
  const cidr = /^(?<address>[^/]+)\/(?<prefix>\d{1,3})$/.exec(entry)?.groups;
  if (cidr !== undefined) {
    const version = isIP(cidr.address!);
    if (version === 0 || Number(cidr.prefix) > (version === 4 ? 32 : 128)) throw wrongEntry(entry);
    return { addresses: networks([entry]), port: null };
  }
  if (isIP(entry) !== 0) return { addresses: single(entry), port: null };
  const named = /^(?<host>\[[^\]]+\]|[^:/]+)(?::(?<port>\d{1,5}))?$/.exec(entry)?.groups;
  const url = named === undefined ? null : URL.parse(`http://${named.host}/`);
  const port = named?.port === undefined ? null : Number(named.port);
  if (url === null || url.username !== '' || url.pathname !== '/' || url.search !== '' || url.hash !== '') {
    throw wrongEntry(entry);
  }
  if (port !== null && (port < 1 || port > 65_535)) throw wrongEntry(entry);
  const host = hostName(url.hostname.replace(/^\[(.*)\]$/, '$1'));
  return isIP(host) === 0 ? { host, port } : { addresses: single(host), port };
}

function single(address: string): BlockList {
  const list = new BlockList();
  const plain = canonical(address);
  list.addAddress(plain, family(plain));
  return list;
}

function wrongEntry(entry: string): JobcellError {
  return new JobcellError(
    'BAD_REQUEST',
    `The configuration is not valid: JOBCELL_FETCH_ALLOW: ${JSON.stringify(entry)} is no host, host:port or CIDR, ` +
      'such as localhost:8080, api.internal or 10.0.0.0/8.',
  );
}
