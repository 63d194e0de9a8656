import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { finished } from 'node:stream/promises';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addressRules } from '../../src/globals/addresses.ts';
import { createFetchBroker } from '../../src/globals/fetch-broker.ts';
import { fetchOperations } from '../../src/globals/fetch-operations.ts';
import { createHostOperations, type HostOperations } from '../../src/globals/host-operations.ts';
import { limits } from '../../src/limits.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { type RunResult, resultOf, runOnce, startSandbox } from '../sandbox/harness.ts';
import { startWebServer, type WebServer } from '../support/web-server.ts';

/** Bodies that are streamed, in both directions, through functions of 32 MB. */
const MiB = 1024 * 1024;
let web: WebServer;
let sandbox: Sandbox;
let host: HostOperations;
/** Requests to /open, which get an answer bit by bit. */
const open: ServerResponse[] = [];
/** Bytes of request bodies that have come in, by path. */
const received = new Map<string, number>();
const dropped: string[] = [];

beforeAll(async () => {
  web = await startWebServer(answer);
  sandbox = await startSandbox();
  const fetch = createFetchBroker({ rules: addressRules('127.0.0.1') });
  host = createHostOperations([() => fetchOperations(fetch)], pino({ level: 'silent' }));
});
afterAll(() => sandbox?.stop());

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url!, 'http://web');
  response.on('close', () => {
    if (!response.writableEnded) dropped.push(pathname);
  });
  if (pathname === '/open') {
    open.push(response);
    response.write('first');
    return;
  }
  if (pathname === '/bytes') {
    const chunk = Buffer.alloc(MiB, 'abcdefgh');
    for (let left = Number(searchParams.get('mib')); left > 0 && !response.destroyed; left--) {
      if (!response.write(chunk)) await Promise.race([once(response, 'drain'), once(response, 'close')]);
    }
    response.end();
    return;
  }
  if (pathname === '/redirect') {
    response.writeHead(307, { location: '/count' }).end();
    return;
  }
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    received.set(pathname, size);
  });
  try {
    await finished(request);
  } catch {
    // A client that went away is what some tests want.
    return;
  }
  response.end(
    JSON.stringify({ size, type: request.headers['content-type'], length: request.headers['content-length'] }),
  );
}

/** Runs a main with this body in a function of 32 MB; `web` is where the server is. */
async function run(body: string): Promise<RunResult> {
  const session = host.open('streaming');
  const over = new AbortController();
  try {
    return await runOnce(sandbox, `const web = '${web.url}'; export async function main() { ${body} }`, {
      type: 'STANDARD',
      limits: { memoryMb: limits.functionMemoryMb },
      onCall: (call) => session.handle(call, over.signal),
      forgetCalls: true,
    });
  } finally {
    over.abort();
    session.close();
  }
}
const result = async (body: string) => resultOf(await run(body));

test('200 MB go through a function of 32 MB, in and out', { timeout: 120_000 }, async () => {
  const seen = await result(`
    const source = await fetch(web + '/bytes?mib=200');
    let size = 0;
    const counted = source.body.pipeThrough(new TransformStream({
      transform(chunk, controller) { size += chunk.length; controller.enqueue(chunk); },
    }));
    const answer = await fetch(web + '/count', { method: 'POST', body: counted, duplex: 'half' });
    return { size, answer: await answer.json() };`);
  expect(seen).toEqual({ size: 200 * MiB, answer: { size: 200 * MiB } });
});

test('what reads all of a body at once ends at 10 MB, with the way out; a stream does not', async () => {
  const seen = await result(`
    const errors = [];
    for (const method of ['text', 'json', 'arrayBuffer', 'blob', 'bytes', 'formData']) {
      const response = await fetch(web + '/bytes?mib=11');
      if (method === 'blob') void response.body;
      try { await response[method]() } catch (error) { errors.push([error.code, error.message.includes(method + '()'), error.message]) }
    }
    const clone = (await fetch(web + '/bytes?mib=11')).clone();
    try { await clone.text() } catch (error) { errors.push([error.code]) }
    let size = 0;
    for await (const chunk of (await fetch(web + '/bytes?mib=11')).body) size += chunk.length;
    return { errors, size };`);
  const message = expect.stringMatching(
    /^The body from http:\/\/127\.0\.0\.1:\d+\/\S+ is larger than 10 MB, .*response\.body\.getReader\(\)/,
  );
  expect(seen).toEqual({
    errors: [...Array(6).fill(['PAYLOAD_TOO_LARGE', true, message]), ['PAYLOAD_TOO_LARGE']],
    size: 11 * MiB,
  });
});

test('a response is there with its head, and each chunk when it comes', async () => {
  const running = result(`
    const response = await fetch(web + '/open');
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const chunks = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return chunks;
      chunks.push(decoder.decode(value));
      await fetch(web + '/seen-' + chunks.length, { method: 'POST', body: 'x' });
    }`);
  await until(() => received.has('/seen-1'));
  open.at(-1)!.write('second');
  await until(() => received.has('/seen-2'));
  open.at(-1)!.end('third');
  expect(await running).toEqual(['first', 'second', 'third']);
});

test('a body that is canceled gives its connection back', async () => {
  const seen = await result(`
    for (let i = 0; i < 70; i++) {
      const response = await fetch(web + '/open');
      if (i % 2 === 0) await response.body.cancel();
      else { const reader = response.body.getReader(); await reader.read(); await reader.cancel('enough'); }
    }
    return 'done';`);
  expect(seen).toBe('done');
});

test('a signal ends a fetch before its answer, in its body, and in its upload', async () => {
  const seen = await result(`
    const caught = async (promise) => { try { return await promise } catch (error) { return error.name ?? error } };
    const names = [];
    names.push(await caught(fetch(web, { signal: AbortSignal.abort() })));
    names.push(await caught(fetch(web, { signal: AbortSignal.abort('mine') })));
    const controller = new AbortController();
    const endless = new ReadableStream({ pull: (to) => new Promise((resolve) => setTimeout(() => { to.enqueue(new Uint8Array(9)); resolve() }, 5)) });
    const sent = fetch(web + '/endless', { method: 'POST', body: endless, duplex: 'half', signal: controller.signal });
    setTimeout(() => controller.abort(), 100);
    names.push(await caught(sent));
    const inBody = new AbortController();
    const response = await fetch(new Request(web + '/open', { signal: inBody.signal }));
    setTimeout(() => inBody.abort(), 50);
    names.push(await caught(response.text()));
    names.push(await caught((await fetch(web + '/open', { signal: AbortSignal.timeout(100) })).text()));
    return names;`);
  expect(seen).toEqual(['AbortError', 'mine', 'AbortError', 'AbortError', 'TimeoutError']);
  await until(() => dropped.includes('/endless') && dropped.filter((path) => path === '/open').length >= 2);
});

test('forms, blobs and parameters are bodies, with the content types that tell what they are', async () => {
  const seen = await result(`
    const send = async (body, init = {}) => (await fetch(web + '/count', { method: 'POST', body, ...init })).json();
    const form = new FormData();
    form.append('text', 'ä');
    form.append('file', new Blob(['abc'], { type: 'text/x' }), 'a"b.txt');
    const copy = await new Response(form).formData();
    return [
      await send(new URLSearchParams({ a: 'b c' })),
      await send(new Blob(['abc'], { type: 'text/x' })),
      await send(form),
      await send(new Uint8Array(5 * 1024 * 1024)),
      [copy.get('text'), copy.get('file').name, copy.get('file').type, await copy.get('file').text()],
    ];`);
  expect(seen).toEqual([
    { size: 5, type: 'application/x-www-form-urlencoded;charset=UTF-8', length: '5' },
    { size: 3, type: 'text/x', length: '3' },
    {
      size: expect.any(Number),
      type: expect.stringMatching(/^multipart\/form-data; boundary=/),
      length: expect.any(String),
    },
    { size: 5 * MiB },
    ['ä', 'a"b.txt', 'text/x', 'abc'],
  ]);
});

test('a body that is no stream of bytes, that breaks, or that is not wanted, ends its fetch', async () => {
  const seen = await result(`
    const caught = async (promise) => { try { return await promise } catch (error) { return error.message } };
    const post = (path, start) => fetch(web + path, { method: 'POST', duplex: 'half', body: new ReadableStream(start) });
    return [
      await caught(post('/count', { pull: (to) => to.enqueue('text') })),
      await caught(post('/count', { pull: () => { throw new Error('broken') } })),
      await caught(post('/redirect', { pull: (to) => { to.enqueue(new Uint8Array(9)); to.close() } })),
      await caught(fetch(web, { method: 'POST', body: new ReadableStream() })),
    ];`);
  expect(seen).toEqual([
    'The stream of a body gave something that is no Uint8Array.',
    'broken',
    'fetch failed',
    "A request whose body is a stream needs duplex: 'half'.",
  ]);
});

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}
