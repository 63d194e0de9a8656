// What code-caches.mjs plays through in a context of runtime globals: their common uses. No part of any build.
(async () => {
  const target = new EventTarget();
  target.addEventListener('x', () => {}, { once: true });
  target.dispatchEvent(new Event('x'));
  const controller = new AbortController();
  AbortSignal.any([controller.signal]).addEventListener('abort', () => {});
  controller.abort();

  const url = new URL('/a/./b%20c?d=1&e=%C3%A9#f', 'https://user:word@München.de:8080/x');
  url.searchParams.append('g', 'ö &');
  url.searchParams.sort();
  url.pathname = '/é';
  url.hostname = '127.0.0.1';
  url.host = '[::1]:80';
  for (const [name, value] of new URLSearchParams({ a: 'b', c: 'd e' })) url.searchParams.set(name, value);
  [url.href, url.search, url.hash, url.origin, `${url}`, URL.canParse('x'), URL.parse('x:y')].join();

  const bytes = new TextEncoder().encode('é');
  new TextDecoder().decode(bytes);
  const source = new ReadableStream({
    pull(controller) {
      controller.enqueue('chunk');
      controller.close();
    },
  });
  await source
    .pipeThrough(new TextEncoderStream())
    .pipeThrough(new TextDecoderStream())
    .pipeTo(new WritableStream({ write() {} }));
  const byteSource = new ReadableStream({
    type: 'bytes',
    pull(controller) {
      controller.enqueue(new Uint8Array(1));
      controller.close();
    },
  });
  const [first, second] = byteSource.tee();
  const reader = first.getReader();
  while (!(await reader.read()).done);
  reader.releaseLock();
  for await (const chunk of second) chunk.length;

  structuredClone({ a: [1, new Date(0), new Map([[1, new Set([2])]]), new Uint8Array(2)], b: new Error('c') });
  atob(btoa('text'));

  const form = new FormData();
  form.append('text', 'value');
  form.append('file', new File([new Blob(['a', new Uint8Array(2)], { type: 'text/plain' })], 'name'));
  await new Response(form).formData();
  await new Blob(['text']).slice(1).text();
  await (await fetch('https://example.org/', { headers: { a: 'b' } })).json();
  const posted = new Request('https://example.org/', {
    method: 'POST',
    body: JSON.stringify({}),
    headers: new Headers([['a', 'b']]),
    signal: new AbortController().signal,
  });
  const response = await fetch(posted.clone());
  response.headers.get('content-type');
  [...response.headers];
  await response.clone().text();
  for await (const chunk of response.body) chunk.length;
  await (await fetch('https://example.org/', { method: 'POST', body: new URLSearchParams({ a: 'b' }) })).arrayBuffer();
  const body = new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(1));
      controller.close();
    },
  });
  await (await fetch('https://example.org/', { method: 'POST', body, duplex: 'half' })).text();
  Response.json({ a: 1 }, { status: 201 });

  const key = await crypto.subtle.importKey('raw', new Uint8Array(16), { name: 'HMAC', hash: 'SHA-256' }, false, [
    'sign',
  ]);
  await crypto.subtle.sign('HMAC', key, new Uint8Array(1));
  await crypto.subtle.digest('SHA-256', new Uint8Array(1));
  const compressed = new Blob(['text']).stream().pipeThrough(new CompressionStream('gzip'));
  await new Response(compressed.pipeThrough(new DecompressionStream('gzip'))).text();
  new URLPattern({ pathname: '/books/:id' }).exec('https://example.org/books/1');
})();
