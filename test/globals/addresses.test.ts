import { describe, expect, test } from 'vitest';
import { addressRules } from '../../src/globals/addresses.ts';

const allows = (allowList: string, address: string, host = address, port = 80) =>
  addressRules(allowList).allows({ host, port, address });

test('this machine is refused at each of its addresses, unless one is opened', () => {
  const own = () => ['127.0.0.1', '8.8.4.4', '2606:4700:0:0::1'];
  const allowed = (allowList: string, address: string) =>
    addressRules(allowList, own).allows({ host: 'a.example', port: 80, address });
  expect(['8.8.4.4', '::ffff:8.8.4.4', '2606:4700::1', '8.8.4.5'].map((address) => allowed('', address))).toEqual([
    false,
    false,
    false,
    true,
  ]);
  expect(allowed('8.8.4.4', '8.8.4.4')).toBe(true);
  expect(allowed('a.example', '8.8.4.4')).toBe(true);
});

describe('without an allow-list', () => {
  test.each([
    '0.0.0.0',
    '0.1.2.3',
    '10.0.0.1',
    '10.255.255.255',
    '100.64.0.1',
    '100.127.255.255',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.8',
    '192.0.2.1',
    '192.88.99.1',
    '192.168.1.1',
    '198.18.0.1',
    '198.51.100.7',
    '203.0.113.7',
    '224.0.0.1',
    '239.255.255.255',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::127.0.0.1',
    '::8.8.8.8',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:10.0.0.1',
    '::ffff:0:0',
    '::ffff:169.254.169.254',
    '64:ff9b::10.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::808:808',
    '100::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '2002:808:808::',
    '3fff::1',
    'fc00::1',
    'fd12:3456:789a::1',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    '',
    'localhost',
  ])('%j is refused', (address) => {
    expect(allows('', address)).toBe(false);
  });

  test.each([
    '1.1.1.1',
    '8.8.8.8',
    '9.255.255.255',
    '11.0.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '192.0.1.1',
    '192.167.255.255',
    '223.255.255.255',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
    '2001:4860:4860::8888',
    '2606:4700::1111',
    '2a00:1450:4001::1',
  ])('%s is public', (address) => {
    expect(allows('', address)).toBe(true);
  });
});

test.each([
  // allow-list, address, host, port, allowed
  ['localhost', '127.0.0.1', 'localhost', 80, true],
  ['localhost', '127.0.0.1', 'LocalHost.', 80, true],
  ['localhost', '127.0.0.1', '127.0.0.1', 80, false],
  ['localhost', '127.0.0.1', 'other.localhost', 80, false],
  ['localhost:8080', '127.0.0.1', 'localhost', 8080, true],
  ['localhost:8080', '127.0.0.1', 'localhost', 8081, false],
  ['127.0.0.1', '127.0.0.1', 'localhost', 80, true],
  ['127.0.0.1:8080', '127.0.0.1', 'localhost', 8080, true],
  ['127.0.0.1:8080', '127.0.0.1', 'localhost', 80, false],
  ['127.0.0.1', '::ffff:127.0.0.1', '::ffff:7f00:1', 80, true],
  ['::ffff:127.0.0.1', '127.0.0.1', '127.0.0.1', 80, true],
  ['10.0.0.0/8', '10.9.8.7', 'a.internal', 443, true],
  ['10.0.0.0/8', '::ffff:10.9.8.7', 'a.internal', 443, true],
  ['10.0.0.0/8', '11.0.0.1', 'public.example', 443, true],
  ['10.0.0.0/8', '192.168.0.1', 'b.internal', 443, false],
  [' api.internal , 10.0.0.0/8 ', '192.168.0.1', 'api.internal', 443, true],
  ['fd00::/8', 'fd12::1', 'c.internal', 80, true],
  ['fd00::/8', 'fe80::1', 'c.internal', 80, false],
  ['::1', '::1', '::1', 80, true],
  ['[::1]:8080', '::1', 'localhost', 8080, true],
  ['[::1]:8080', '::1', 'localhost', 80, false],
  ['0.0.0.0/0', '10.0.0.1', '10.0.0.1', 80, true],
] as const)('with %j, %s as %s:%d is allowed: %s', (allowList, address, host, port, allowed) => {
  expect(allows(allowList, address, host, port)).toBe(allowed);
});

test.each([
  '10.0.0.0/33',
  '::1/129',
  'a/b',
  'a/8',
  'localhost:',
  'localhost:0',
  'localhost:99999',
  'http://localhost',
  'a b',
  '[::1',
  'a?b',
])('the allow-list entry %j is an error that names it', (entry) => {
  expect(() => addressRules(`ok.example, ${entry}`)).toThrow(`JOBCELL_FETCH_ALLOW: ${JSON.stringify(entry)}`);
});
