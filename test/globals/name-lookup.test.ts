import { createSocket, type RemoteInfo } from 'node:dgram';
import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addressRules } from '../../src/globals/addresses.ts';
import { type Lookup, nameLookup } from '../../src/globals/name-lookup.ts';

/** A real DNS server on a free port: `known.example` has an address of each kind, `silent.example` gets no answer, everything else is unknown. */
const dns = createSocket('udp4');
let server: string;

beforeAll(async () => {
  dns.on('message', (question, { port, address }: RemoteInfo) => {
    const name = nameIn(question);
    if (name === 'silent.example') return;
    dns.send(answerTo(question, name), port, address);
  });
  dns.bind(0, '127.0.0.1');
  await once(dns, 'listening');
  server = `127.0.0.1:${dns.address().port}`;
});
afterAll(() => dns.close());

function nameIn(question: Buffer): string {
  const labels: string[] = [];
  for (let at = 12; question[at] !== 0; at += question[at]! + 1) {
    labels.push(question.toString('latin1', at + 1, at + 1 + question[at]!));
  }
  return labels.join('.');
}

function answerTo(question: Buffer, name: string): Buffer {
  const end = question.indexOf(0, 12) + 5;
  const type = question.readUInt16BE(end - 4);
  const data = type === 1 ? Buffer.from([203, 0, 113, 7]) : Buffer.from('20010db8000000000000000000000001', 'hex');
  const known = name === 'known.example';
  const head = Buffer.from(question.subarray(0, end));
  head.writeUInt16BE(known ? 0x8180 : 0x8183, 2);
  head.writeUInt16BE(known ? 1 : 0, 6);
  head.fill(0, 8, 12);
  if (!known) return head;
  const record = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length]);
  return Buffer.concat([head, record, data]);
}

const ask = (lookup: Lookup, host: string) =>
  new Promise<LookupAddress[] | string>((resolve) => {
    lookup(host, { all: true }, (error, addresses) => resolve(error === null ? addresses : String(error.code)));
  });

test('names are asked of the DNS servers, for both kinds of addresses', async () => {
  const lookup = nameLookup(addressRules(''), [server]);
  expect(await ask(lookup, 'known.example')).toEqual([
    { address: '203.0.113.7', family: 4 },
    { address: '2001:db8::1', family: 6 },
  ]);
  expect(await ask(lookup, 'unknown.example')).toBe('ENOTFOUND');
});

test('names without a dot, and those that were opened, are asked of the system', async () => {
  const addresses = await ask(nameLookup(addressRules(''), [server]), 'localhost');
  expect(addresses).toContainEqual({ address: '127.0.0.1', family: 4 });
  // Nobody knows it: what matters is that the server that does was not asked.
  expect(await ask(nameLookup(addressRules('known.example:80'), [server]), 'known.example')).toEqual(
    expect.any(String),
  );
});

test('names whose server does not answer hold up no thread of the process', async () => {
  const lookup = nameLookup(addressRules(''), [server]);
  let over = false;
  const silent = Promise.all(Array.from({ length: 64 }, () => ask(lookup, 'silent.example'))).then((answers) => {
    over = true;
    return answers;
  });
  await readFile(import.meta.filename);
  expect(over).toBe(false);
  expect(new Set(await silent)).toEqual(new Set(['EAI_AGAIN']));
}, 60_000);
