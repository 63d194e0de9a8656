import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { addressRules } from '../../src/globals/addresses.ts';
import { createFetchBroker } from '../../src/globals/fetch-broker.ts';
import { type FetchOperations, fetchOperations } from '../../src/globals/fetch-operations.ts';
import { limits } from '../../src/limits.ts';
import { startWebServer, type WebServer } from '../support/web-server.ts';

/** What needs a resolver or a clock of the test's own. */
let web: WebServer;
let open: FetchOperations | undefined;

beforeAll(async () => {
  web = await startWebServer((request, response) => {
    if (request.url === '/silent') return;
    response.end(request.url === '/large' ? Buffer.alloc(4 * limits.fetchChunkBytes) : `${request.headers.host}`);
  });
});
afterEach(() => open?.close());

function operations(options: {
  allow?: string;
  timeoutMs?: number;
  addresses?: (name: string) => LookupAddress[];
}): FetchOperations {
  open = fetchOperations(
    createFetchBroker({
      rules: addressRules(options.allow ?? ''),
      ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
      lookup: (name, _, callback) => callback(null, options.addresses?.(name) ?? []),
    }),
  );
  return open;
}

const forever = () => new AbortController().signal;
let nextExchange = 0;
const request = (url: string) => ({ url, method: 'GET', headers: [], redirect: 'follow', body: null });
/** The arguments of a fetch, of an exchange of its own. */
const get = (url: string) => [nextExchange++, request(url)];
const local: LookupAddress = { address: '127.0.0.1', family: 4 };

test('a name is allowed for what it is called, or for where it leads', async () => {
  const url = `http://api.internal:${web.port}/`;
  for (const allow of ['api.internal', `api.internal:${web.port}`, '127.0.0.0/8', `127.0.0.1:${web.port}`]) {
    const answer = await operations({ allow, addresses: () => [local] }).fetch(get(url), forever());
    expect(answer).toMatchObject({ status: 200, body: Buffer.from(`api.internal:${web.port}`).toString('base64') });
  }
  for (const allow of ['', 'api.internal:1', 'other.internal', '10.0.0.0/8']) {
    const answer = await operations({ allow, addresses: () => [local] }).fetch(get(url), forever());
    expect(answer).toMatchObject({ failed: { cause: { code: 'ADDRESS_NOT_ALLOWED' } } });
  }
});

test('of the addresses of a name only allowed ones are connected to', async () => {
  const addresses = () => [{ address: '127.0.0.2', family: 4 }, local];
  const url = `http://both.example:${web.port}/`;
  expect(await operations({ allow: '127.0.0.1', addresses }).fetch(get(url), forever())).toMatchObject({ status: 200 });
});

test('a name that answers differently the second time (DNS rebinding) gains nothing', async () => {
  let asked = 0;
  const addresses = () => (asked++ === 0 ? [{ address: '203.0.113.1', family: 4 }] : [local]);
  const { fetch } = operations({ allow: '203.0.113.1', addresses, timeoutMs: 200 });
  const url = `http://rebinding.example:${web.port}/`;
  // The address that was looked up is the one that is connected to; nobody answers there.
  expect(await fetch(get(url), forever())).toMatchObject({ failed: { message: 'fetch failed' } });
  expect(asked).toBe(1);
  expect(await fetch(get(url), forever())).toMatchObject({ failed: { cause: { code: 'ADDRESS_NOT_ALLOWED' } } });
});

test('a name without an address is an error', async () => {
  const answer = await operations({}).fetch(get('http://empty.example/'), forever());
  expect(answer).toMatchObject({ failed: { message: 'fetch failed', cause: { code: 'ADDRESS_NOT_ALLOWED' } } });
});

test('a server that does not answer, or a body that nobody reads, is given up in time', async () => {
  const { fetch, fetchRead } = operations({ allow: '127.0.0.1', timeoutMs: 300 });
  const signal = forever();
  const message = (path: string) =>
    `The exchange with 127.0.0.1:${web.port} took longer than 0.3 s (${web.url}${path}).`;
  expect(await fetch(get(`${web.url}/silent`), signal)).toEqual({
    failed: { message: 'fetch failed', cause: { code: 'ETIMEDOUT', message: message('/silent') } },
  });
  const exchange = nextExchange;
  expect(await fetch(get(`${web.url}/large`), signal)).toMatchObject({ more: true });
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(await fetchRead([exchange], signal)).toEqual({
    failed: { message: 'terminated', cause: { code: 'ETIMEDOUT', message: message('/large') } },
  });
});

test('a body that is not read holds its connection until it is canceled or its script ends', async () => {
  const { fetch, fetchCancel } = operations({ allow: '127.0.0.1', timeoutMs: 20_000 });
  const script = new AbortController();
  const large = () => fetch(get(`${web.url}/large`), script.signal);
  const firstExchange = nextExchange;
  await Promise.all(Array.from({ length: limits.fetchConnections }, large));
  const next = large();
  const first = await Promise.race([next, new Promise((resolve) => setTimeout(resolve, 100, 'waits'))]);
  expect(first).toBe('waits');
  await fetchCancel([firstExchange], script.signal);
  expect(await next).toMatchObject({ status: 200 });
  const another = fetch(get(web.url), forever());
  script.abort();
  expect(await another).toMatchObject({ status: 200 });
});

/** A server that sends this to whoever connects, the last part without end. */
async function floods(first: string, endless: string): Promise<{ url: string; close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).resume());
    const more = () => {
      while (!socket.destroyed && socket.write(endless.repeat(2_000)));
    };
    socket.on('drain', more).write(first || endless);
    more();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test('a server that goes on announcing an answer is given up; one that announces it a few times is not', async () => {
  const { fetch } = operations({ allow: '127.0.0.1' });
  const announcement = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n';
  const flood = await floods('', announcement);
  expect(await fetch(get(flood.url), forever())).toMatchObject({
    failed: { message: 'fetch failed', cause: { code: 'INVALID_HTTP' } },
  });
  flood.close();
  const honest = await floods(`${announcement.repeat(3)}HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n`, 'a');
  expect(await fetch(get(honest.url), forever())).toMatchObject({ status: 200 });
  honest.close();
});

test('a body in chunks of one byte comes in pieces, without what the chunks cost (S4)', async () => {
  const { fetch, fetchRead } = operations({ allow: '127.0.0.1' });
  const flood = await floods('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n', '1\r\na\r\n');
  const signal = forever();
  const exchange = nextExchange;
  expect(await fetch(get(flood.url), signal)).toMatchObject({ status: 200, more: true });
  for (let i = 0; i < 20; i++) {
    const part = (await fetchRead([exchange], signal)) as { body: string };
    expect(Buffer.from(part.body, 'base64').toString()).toMatch(/^a+$/);
  }
  flood.close();
});

test("a body's rest is only there for the script that fetched it", async () => {
  const { fetch, fetchRead } = operations({ allow: '127.0.0.1' });
  const signal = forever();
  const exchange = nextExchange;
  await fetch(get(`${web.url}/large`), signal);
  expect(await fetchRead([exchange], forever())).toEqual({ failed: { message: 'The body is not there any more.' } });
  expect(await fetchRead([exchange], signal)).toMatchObject({ done: false });
});

test('what one run has under way is bounded (S4)', async () => {
  const { fetch } = operations({ allow: '127.0.0.1' });
  const body = { base64: 'x'.repeat(limits.payloadBytes) };
  const post = () => fetch([nextExchange++, { ...request(`${web.url}/silent`), method: 'POST', body }], script.signal);
  const script = new AbortController();
  const most = Math.floor(limits.fetchRunBytes / limits.payloadBytes) - 1;
  const underWay = Array.from({ length: most }, post);
  void post();
  expect(await post()).toMatchObject({ failed: { cause: { code: 'TOO_MUCH_UNDER_WAY' } } });
  script.abort();
  await Promise.all(underWay);
  expect(await fetch(get(web.url), forever())).toMatchObject({ status: 200 });
});
