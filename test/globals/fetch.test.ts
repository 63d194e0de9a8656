import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import { Client, type Execution, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { startWebServer, textOf, type WebServer } from '../support/web-server.ts';

const MiB = 1024 * 1024;
let web: WebServer;
/** Answers on an address that is not allowed. */
let hidden: WebServer;
let hiddenRequests = 0;
/** Requests to /gather, which are answered a while after as many have come as a run may have at once. */
const gathered: ServerResponse[] = [];
let mostGathered = 0;
let server: TestServer;
let workspace: Workspace;

beforeAll(async () => {
  hidden = await startWebServer((_, response) => {
    hiddenRequests++;
    response.end('secret');
  }, '127.0.0.2');
  web = await startWebServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url!, 'http://web');
    switch (pathname) {
      case '/echo':
        response.writeHead(200, { 'x-one': '1', 'set-cookie': ['a=1', 'b=2'], 'content-type': 'application/json' });
        return response.end(
          JSON.stringify({ method: request.method, headers: request.headers, body: await textOf(request) }),
        );
      case '/status':
        response.writeHead(Number(searchParams.get('code')), 'As Asked');
        return response.end();
      case '/to':
        response.writeHead(302, { location: searchParams.get('url')! });
        return response.end('moved');
      case '/circle':
        response.writeHead(307, { location: '/circle' });
        return response.end();
      case '/bytes': {
        const size = Number(searchParams.get('size'));
        for (let left = size; left > 0; left -= MiB) response.write(Buffer.alloc(Math.min(left, MiB), 'a'));
        return response.end();
      }
      case '/breaks':
        response.writeHead(200, { 'content-length': 1_000 });
        response.write('a'.repeat(10));
        setTimeout(() => response.destroy(), 20);
        return undefined;
      case '/gather':
        gathered.push(response);
        if (gathered.length === limits.fetchConnections) setTimeout(answerGathered, 100);
        return undefined;
      default:
        return undefined;
    }
  });
  server = await startServer({ env: { JOBCELL_FETCH_ALLOW: '127.0.0.1', HTTP_PROXY: 'http://127.0.0.1:1' } });
  workspace = await new Client(server).createWorkspace();
});
afterAll(() => server?.stop());

function answerGathered(): void {
  mostGathered = Math.max(mostGathered, gathered.length);
  for (const response of gathered.splice(0)) response.end('done');
}

let scripts = 0;
/** Starts a workflow of one job function whose main has this body; `web` and `args` are its arguments. */
async function start(body: string, args: Record<string, unknown> = {}): Promise<string> {
  const name = `fetch-${scripts++}`;
  await workspace.uploadJobFunction(name, `export async function main({ web, hidden, args }) { ${body} }`);
  await workspace.putWorkflow(name, name);
  return workspace.start(name, { web: web.url, hidden: hidden.url, args });
}

async function run(body: string, args?: Record<string, unknown>): Promise<Execution> {
  return workspace.finished(await start(body, args));
}

async function result(body: string, args?: Record<string, unknown>): Promise<unknown> {
  const execution = await run(body, args);
  expect(execution.error).toBeNull();
  return execution.result;
}

/** What a fetch of this URL rejects with. */
const failure = (url: string, init = '') =>
  result(
    `try { await fetch(args.url${init}); } catch (error) {
       return { name: error.name, message: error.message, code: error.cause?.code, cause: error.cause?.message };
     }`,
    { url },
  );

describe('an answer', () => {
  test('has status, headers, URL and a body', async () => {
    expect(
      await result(`
        const response = await fetch(web + '/echo?a=b');
        return { ok: response.ok, status: response.status, text: response.statusText, url: response.url === web + '/echo?a=b',
          redirected: response.redirected, type: response.type, one: response.headers.get('X-One'),
          cookies: response.headers.getSetCookie(), used: response.bodyUsed, method: (await response.json()).method };`),
    ).toEqual({
      ok: true,
      status: 200,
      text: 'OK',
      url: true,
      redirected: false,
      type: 'basic',
      one: '1',
      cookies: ['a=1', 'b=2'],
      used: false,
      method: 'GET',
    });
  });

  test('is read as text, JSON or bytes, and once', async () => {
    expect(
      await result(`
        const get = () => fetch(web + '/bytes?size=3');
        const response = await get();
        const copy = response.clone();
        return [await response.text(), await copy.text(), (await (await get()).arrayBuffer()).byteLength,
          [...await (await get()).bytes()], await (await get()).json().catch((error) => error.name),
          await response.text().catch((error) => error.name)];`),
    ).toEqual(['aaa', 'aaa', 3, [97, 97, 97], 'SyntaxError', 'TypeError']);
  });

  test.each([204, 304, 500])('with status %d is no error', async (code) => {
    const seen = await result(
      `const response = await fetch(web + '/status?code=' + args.code);
       return [response.status, response.ok, response.statusText, await response.text()];`,
      { code },
    );
    expect(seen).toEqual([code, code === 204, 'As Asked', '']);
  });

  test('of just 10 MB is read, in pieces that the server never holds together', async () => {
    const size = limits.fetchBufferedBytes;
    expect(
      await result("return (await (await fetch(web + '/bytes?size=' + args.size)).text()).length;", { size }),
    ).toBe(size);
  });

  test('of more is an error that names the limit; the run goes on', async () => {
    const size = limits.fetchBufferedBytes + 1;
    const seen = await result(
      `const response = await fetch(web + '/bytes?size=' + args.size);
       const copy = response.clone();
       const errors = [];
       for (const each of [response, copy]) try { await each.text() } catch (error) { errors.push([error.name, error.code, error.message]) }
       return errors.concat([[(await fetch(web + '/echo')).status]]);`,
      { size },
    );
    expect(seen).toEqual([
      ['TypeError', 'PAYLOAD_TOO_LARGE', expect.stringContaining('/bytes?… is larger than 10 MB, the limit of text()')],
      ['TypeError', 'PAYLOAD_TOO_LARGE', expect.stringContaining('10 MB')],
      [200],
    ]);
  });
});

describe('a request', () => {
  test('takes method, headers and a text', async () => {
    const echoed = await result(`
      const request = { method: 'post', headers: { 'X-A': 'b', cookie: 'c=d', 'user-agent': 'mine' }, body: 'ä😀' };
      return (await fetch(web + '/echo', request)).json();`);
    expect(echoed).toMatchObject({
      method: 'POST',
      headers: {
        'x-a': 'b',
        cookie: 'c=d',
        'user-agent': 'mine',
        'content-type': 'text/plain;charset=UTF-8',
        'content-length': '6',
      },
      body: 'ä😀',
    });
  });

  test('takes bytes, or a Request', async () => {
    const echoed = (await result(`
      const body = new TextEncoder().encode('xäy').subarray(1);
      return (await fetch(new Request(web + '/echo', { method: 'PUT', body, headers: [['content-type', 'a/b']] }))).json();`)) as {
      headers: Record<string, string>;
    };
    expect(echoed).toMatchObject({ method: 'PUT', body: 'äy', headers: { 'content-type': 'a/b' } });
  });

  test('carries nothing of the server: no credentials, cookies or proxy', async () => {
    const echoed = (await result(`
      await fetch(web + '/echo');
      return (await fetch(web + '/echo')).json();`)) as { headers: Record<string, string> };
    expect(echoed.headers).toEqual({
      host: `127.0.0.1:${web.port}`,
      connection: 'keep-alive',
      accept: '*/*',
      'accept-language': '*',
      'accept-encoding': expect.any(String),
      'sec-fetch-mode': 'cors',
      'user-agent': 'jobcell',
    });
  });

  test('cannot set what belongs to the connection', async () => {
    const echoed = (await result(`
      const headers = { host: 'other', connection: 'close', 'content-length': '1', 'transfer-encoding': 'chunked', expect: 'x' };
      return (await fetch(web + '/echo', { method: 'POST', body: 'abc', headers })).json();`)) as {
      headers: Record<string, string>;
      body: string;
    };
    expect(echoed).toMatchObject({
      headers: { host: `127.0.0.1:${web.port}`, connection: 'keep-alive', 'content-length': '3' },
      body: 'abc',
    });
  });

  test('cannot smuggle a header in', async () => {
    const seen = await result(`
      const errors = [];
      for (const init of [{ headers: { a: 'b\\r\\nx: y' } }, { headers: { 'a\\r\\nx': 'y' } }, { method: 'GET / HTTP/1.1\\r\\nx: y\\r\\n\\r\\n' }])
        try { await fetch(web + '/echo', init) } catch (error) { errors.push(error.name) }
      const { url } = await fetch(web + '/echo?a\\r\\nb: c');
      return [...errors, url === web + '/echo?ab:%20c'];`);
    expect(seen).toEqual(['TypeError', 'TypeError', 'TypeError', true]);
  });

  test('has a URL and headers of at most 64 KiB', async () => {
    const seen = await result(`
      const errors = [];
      for (const args of [[web + '/echo', { headers: { a: 'b'.repeat(70_000) } }], [web + '/' + 'a'.repeat(70_000)]])
        try { await fetch(...args) } catch (error) { errors.push(error.message) }
      return errors;`);
    const message = 'The URL and the headers of a request have at most 64 KiB.';
    expect(seen).toEqual([message, message]);
  });
});

describe('redirects', () => {
  test('are followed, shown, or an error', async () => {
    const seen = await result(`
      const url = web + '/to?url=/echo';
      const followed = await fetch(url);
      const manual = await fetch(url, { redirect: 'manual' });
      const error = await fetch(url, { redirect: 'error' }).catch((error) => error.cause.code);
      return [followed.redirected, followed.url === web + '/echo', manual.status, manual.headers.get('location'), error];`);
    expect(seen).toEqual([true, true, 302, '/echo', 'UNEXPECTED_REDIRECT']);
  });

  test('that lead to a closed port name the port, and where it all began', async () => {
    const seen = await failure(`${web.url}/to?url=${encodeURIComponent('http://127.0.0.1:1/closed')}`);
    // undici refuses port 1 as one of another protocol.
    expect(seen).toMatchObject({ code: 'BAD_PORT', cause: expect.stringContaining(`(${web.url}/to?…).`) });
    const closed = createServer();
    await once(closed.listen(0, '127.0.0.1'), 'listening');
    const { port } = closed.address() as { port: number };
    await new Promise((resolve) => closed.close(resolve));
    expect(await failure(`${web.url}/to?url=${encodeURIComponent(`http://127.0.0.1:${port}/`)}`)).toMatchObject({
      code: 'ECONNREFUSED',
      cause: `Nothing listens at 127.0.0.1:${port}: the connection was refused (${web.url}/to?…).`,
    });
  });

  test('in a circle end', async () => {
    expect(await failure(`${web.url}/circle`)).toMatchObject({ message: 'fetch failed', code: 'TOO_MANY_REDIRECTS' });
  });

  test('to a private address or another scheme are refused', async () => {
    const to = (url: string) => failure(`${web.url}/to?url=${encodeURIComponent(url)}`);
    expect(await to(`${hidden.url}/`)).toMatchObject({ code: 'ADDRESS_NOT_ALLOWED' });
    expect(await to('file:///etc/passwd')).toMatchObject({ code: 'INVALID_REDIRECT' });
    expect(await to('data:text/plain,x')).toMatchObject({ code: 'INVALID_REDIRECT' });
    expect(hiddenRequests).toBe(0);
  });
});

test('a private address is refused, however it is written', async () => {
  const hosts = [
    '127.0.0.2',
    '2130706434',
    '0x7f000002',
    '0177.0.0.2',
    '127.2',
    '0x7f.2',
    '[::ffff:127.0.0.2]',
    '[::ffff:7f00:2]',
    '[::1]',
    '[::]',
    '0.0.0.0',
    '0',
    '169.254.169.254',
    '10.0.0.1',
    '[fd00::1]',
    '[fe80::1]',
    '[64:ff9b::7f00:2]',
  ];
  const seen = await result(
    `return Promise.all(args.hosts.map((host) => fetch('http://' + host + ':' + args.port + '/').catch(({ name, message, cause }) =>
       [host, name, message, cause.code])));`,
    { hosts, port: hidden.port },
  );
  expect(seen).toEqual(hosts.map((host) => [host, 'TypeError', 'fetch failed', 'ADDRESS_NOT_ALLOWED']));
  expect(hiddenRequests).toBe(0);
  expect((await failure(`http://127.2:${hidden.port}/`)) as object).toMatchObject({
    cause:
      '127.0.0.2 is a private or local address, or a name of one; scripts on this server may not reach it ' +
      `(http://127.0.0.2:${hidden.port}/).`,
  });
});

test('what an allowed address is called makes no difference', async () => {
  const seen = await result(
    `const statuses = [];
     for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '127.1', '[::ffff:127.0.0.1]'])
       statuses.push((await fetch('http://' + host + ':' + args.port + '/echo')).status);
     return statuses;`,
    { port: web.port },
  );
  expect(seen).toEqual([200, 200, 200, 200, 200]);
});

describe('failures are those an author knows', () => {
  test('a closed port', async () => {
    const closed = createServer();
    await once(closed.listen(0, '127.0.0.1'), 'listening');
    const { port } = closed.address() as { port: number };
    await new Promise((resolve) => closed.close(resolve));
    expect(await failure(`http://127.0.0.1:${port}/`)).toEqual({
      name: 'TypeError',
      message: 'fetch failed',
      code: 'ECONNREFUSED',
      cause: `Nothing listens at 127.0.0.1:${port}: the connection was refused (http://127.0.0.1:${port}/).`,
    });
  });

  test.each([
    ['not a url', { message: 'Failed to parse URL from not a url', code: 'ERR_INVALID_URL' }],
    ['/relative', { message: 'Failed to parse URL from /relative', code: 'ERR_INVALID_URL' }],
    ['http://', { code: 'ERR_INVALID_URL' }],
    ['ftp://a/b', { message: 'fetch failed', code: 'UNKNOWN_SCHEME' }],
    ['file:///etc/passwd', { message: 'fetch failed', code: 'UNKNOWN_SCHEME' }],
    ['about:blank', { message: 'fetch failed', code: 'UNKNOWN_SCHEME' }],
    ['http://user:password@127.0.0.1/', { message: expect.stringContaining('user name or a password') }],
    ['http://127.0.0.1:22/', { message: 'fetch failed', code: 'BAD_PORT' }],
  ])('%s', async (url, expected) => {
    expect(await failure(url)).toMatchObject({ name: 'TypeError', ...expected });
  });

  test('something that does not speak HTTP', async () => {
    const odd = createServer((socket) => socket.end('SSH-2.0-OpenSSH\r\n'));
    await once(odd.listen(0, '127.0.0.1'), 'listening');
    const { port } = odd.address() as { port: number };
    expect(await failure(`http://127.0.0.1:${port}/`)).toMatchObject({
      message: 'fetch failed',
      code: 'INVALID_HTTP',
    });
    expect(await failure(`https://127.0.0.1:${port}/`)).toMatchObject({
      code: expect.stringMatching(/^ERR_SSL/),
      cause: `127.0.0.1:${port} does not speak TLS as it should (https://127.0.0.1:${port}/).`,
    });
    odd.close();
  });

  test('a body that breaks off', async () => {
    const seen = await result(`
      const response = await fetch(web + '/breaks');
      try { await response.text() } catch (error) { return [response.status, error.name, error.message, error.cause.message] }`);
    expect(seen).toEqual([
      200,
      'TypeError',
      'terminated',
      `127.0.0.1:${web.port} closed the connection (${web.url}/breaks).`,
    ]);
  });

  test('one that nobody catches fails the execution, with its cause and without anything of ours', async () => {
    const { status, error } = await run(`await fetch('http://127.0.0.2/a?token=x#y');`);
    expect(status).toBe('FAILED');
    expect(error).toMatchObject({
      name: 'TypeError',
      message:
        'fetch failed: 127.0.0.2 is a private or local address, or a name of one; scripts on this server may not reach it (http://127.0.0.2/a?…).',
      kind: 'USER_RUNTIME',
    });
    expect(error!.stack).toMatch(
      /^TypeError: fetch failed\n {4}at async main \(fetch-\d+@1\.js:1:\d+\)\nCaused by ADDRESS/,
    );
    expect(error!.stack).not.toMatch(/undici|node_modules|node:|jobcell:|token/);
  });
});

test('a run has 64 connections at once; more requests wait for one', async () => {
  const texts = await result(
    `const all = Array.from({ length: args.requests }, async () => (await fetch(web + '/gather')).text());
     return [...new Set(await Promise.all(all))];`,
    { requests: 2 * limits.fetchConnections },
  );
  expect(texts).toEqual(['done']);
  expect(mostGathered).toBe(limits.fetchConnections);
});

describe('the end of what asked for it ends a request', () => {
  /** Resolves when a request has come in, with a promise of the end of its connection. */
  async function hanging(body: string): Promise<{ id: string; closed: Promise<unknown> }> {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket.on('error', () => {})));
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    const { port } = silent.address() as { port: number };
    const connected = once(silent, 'connection');
    const id = await start(body, { url: `http://127.0.0.1:${port}/` });
    await connected;
    // Read to the end, or the end is not seen.
    const closed = once(sockets[0]!.resume(), 'close').then(() => silent.close());
    return { id, closed };
  }

  test('cancel', async () => {
    const { id, closed } = await hanging('await fetch(args.url);');
    await workspace.client.expect('POST', `${workspace.path}/executions/${id}/cancel`);
    await closed;
    expect((await workspace.finished(id)).status).toBe('CANCELED');
  });

  test('the end of main', async () => {
    const { id, closed } = await hanging(`
      fetch(args.url);
      await new Promise((resolve) => setTimeout(resolve, 300));
      return 'ended';`);
    await closed;
    expect((await workspace.finished(id)).result).toBe('ended');
  });
});

test('a fetch is no recorded call: a body that is replayed fetches again', async () => {
  await workspace.uploadJobFunction('step', 'export const main = (input) => input;');
  await workspace.uploadJobFunction(
    'replayed',
    `export async function main({ url }) {
       await fetch(url);
       return tailor.workflow.execJobFunction('step', { after: 'fetch' });
     }`,
  );
  await workspace.putWorkflow('replayed', 'replayed');
  let requests = 0;
  const counter = await startWebServer((_, response) => {
    requests++;
    response.end();
  });
  const { status, result: end } = await workspace.run('replayed', { url: counter.url }, { replay: 'always' });
  expect({ status, end, requests }).toEqual({ status: 'SUCCESS', end: { after: 'fetch' }, requests: 2 });
});
