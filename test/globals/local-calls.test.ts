import { createHash, createHmac, webcrypto } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, type RunOptions, resultOf, runIn, runOnce, startSandbox } from '../sandbox/harness.ts';

/** What the cell does for an isolate by Node's own: crypto.subtle and the compression streams. */
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.stop());

const helpers = `
  const hex = (bytes) => new Uint8Array(bytes).toHex();
  const all = async (stream) => new Uint8Array(await new Response(stream).arrayBuffer());
  const through = (bytes, transform) => all(new Blob([bytes]).stream().pipeThrough(transform));
  const caught = async (promise) => { try { return await promise } catch (error) { return [error.name, error.message, error instanceof DOMException] } };
`;
const run = (body: string, options: RunOptions = {}) =>
  runOnce(sandbox, `${helpers} export async function main(args) { ${body} }`, options);
const evaluate = async (body: string, options: RunOptions = {}) => resultOf(await run(body, options));

describe('crypto.subtle', () => {
  test('makes what Node makes', async () => {
    const data = Buffer.from('data');
    const pair = (await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, [
      'sign',
      'verify',
    ])) as webcrypto.CryptoKeyPair;
    const jwk = await webcrypto.subtle.exportKey('jwk', pair.privateKey);
    const result = (await evaluate(
      `const data = new TextEncoder().encode('data');
       const hmac = await crypto.subtle.importKey('raw', new Uint8Array([1, 2, 3]), { name: 'HMAC', hash: 'SHA-256' }, true, ['sign', 'verify']);
       const mac = await crypto.subtle.sign('HMAC', hmac, data);
       const aes = await crypto.subtle.generateKey({ name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']);
       const iv = crypto.getRandomValues(new Uint8Array(12));
       const secret = await crypto.subtle.encrypt({ name: 'AES-GCM', iv, additionalData: data }, aes, data);
       const plain = await crypto.subtle.decrypt({ name: 'AES-GCM', iv, additionalData: data }, aes, secret);
       const ec = await crypto.subtle.importKey('jwk', args.jwk, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']);
       const password = await crypto.subtle.importKey('raw', data, 'PBKDF2', false, ['deriveBits']);
       return {
         digest: hex(await crypto.subtle.digest('SHA-512', data)),
         mac: hex(mac), ok: await crypto.subtle.verify('HMAC', hmac, mac, data), plain: new TextDecoder().decode(plain),
         signature: hex(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-384' }, ec, data)),
         derived: hex(await crypto.subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt: data, iterations: 1000 }, password, 128)),
         key: [hmac.type, hmac.extractable, hmac.algorithm, hmac.usages, String(hmac), Object.keys(hmac), hmac instanceof CryptoKey],
         exported: await crypto.subtle.exportKey('jwk', hmac),
       };`,
      { args: { jwk } },
    )) as Record<string, unknown>;
    const bits = await webcrypto.subtle.deriveBits(
      { name: 'PBKDF2', hash: 'SHA-256', salt: data, iterations: 1000 },
      await webcrypto.subtle.importKey('raw', data, 'PBKDF2', false, ['deriveBits']),
      128,
    );
    expect(result).toMatchObject({
      digest: createHash('sha512').update(data).digest('hex'),
      mac: createHmac('sha256', Buffer.from([1, 2, 3]))
        .update(data)
        .digest('hex'),
      ok: true,
      plain: 'data',
      derived: Buffer.from(bits).toString('hex'),
      key: [
        'secret',
        true,
        { name: 'HMAC', hash: { name: 'SHA-256' }, length: 24 },
        ['sign', 'verify'],
        '[object CryptoKey]',
        [],
        true,
      ],
      exported: { kty: 'oct', k: 'AQID', alg: 'HS256', ext: true, key_ops: ['sign', 'verify'] },
    });
    const verified = await webcrypto.subtle.verify(
      { name: 'ECDSA', hash: 'SHA-384' },
      pair.publicKey,
      Buffer.from(result.signature as string, 'hex'),
      data,
    );
    expect(verified).toBe(true);
  });

  test('fails as the standard says, with nothing of ours in the text', async () => {
    const seen = (await evaluate(`
      const key = await crypto.subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
      return [
        await caught(crypto.subtle.digest('MD5', new Uint8Array(1))),
        await caught(crypto.subtle.exportKey('raw', key)),
        await caught(crypto.subtle.verify('HMAC', key, new Uint8Array(1), new Uint8Array(1))),
        await caught(crypto.subtle.digest('SHA-256')),
        await caught(crypto.subtle.digest('SHA-256', 'text')),
        await caught(crypto.subtle.importKey('raw', new Uint8Array(5), 'AES-GCM', true, ['encrypt'])),
        await caught(crypto.subtle.sign.call({}, 'HMAC', key, new Uint8Array(1))),
        await caught(structuredClone(key).usages),
        (() => { try { new CryptoKey() } catch (error) { return error.name } })(),
      ];`)) as [string, string, boolean][];
    expect(seen.map((each) => (Array.isArray(each) && each.length === 3 ? [each[0], each[2]] : each))).toEqual([
      ['NotSupportedError', true],
      ['InvalidAccessError', true],
      ['InvalidAccessError', true],
      ['TypeError', false],
      ['TypeError', false],
      ['DataError', true],
      ['TypeError', false],
      ['sign'],
      'TypeError',
    ]);
    expect(JSON.stringify(seen)).not.toMatch(/node:|jobcell:|ERR_|\/work|node_modules/);
  });

  test('takes any number of calls at once', async () => {
    const seen = await evaluate(`
      const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => crypto.subtle.digest('SHA-256', new Uint8Array([i]))));
      return [all.length, hex(all[7])];`);
    expect(seen).toEqual([
      1000,
      createHash('sha256')
        .update(Buffer.from([7]))
        .digest('hex'),
    ]);
  });

  test('its effort is bounded, and counts as processor time', async () => {
    const derive = (iterations: number, more = '') =>
      `const key = await crypto.subtle.importKey('raw', new Uint8Array(1), 'PBKDF2', false, ['deriveBits']);
       const bits = () => crypto.subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-512', salt: new Uint8Array(1), iterations: ${iterations} }, key, 512);
       ${more}`;
    expect(await evaluate(derive(limits.cryptoIterations + 1, 'return caught(bits());'))).toEqual([
      'OperationError',
      'PBKDF2 has at most 10,000,000 iterations here.',
      true,
    ]);
    expect(
      await evaluate(
        `return caught(crypto.subtle.generateKey({ name: 'RSA-PSS', hash: 'SHA-256', modulusLength: 16_384, publicExponent: new Uint8Array([1, 0, 1]) }, true, ['sign']));`,
      ),
    ).toEqual(['OperationError', 'Keys of RSA that are generated here have at most 4096 bits.', true]);
    const over = await run(derive(100_000, 'for (;;) await bits();'), { limits: { cpuMs: 300 } });
    expect(failureOf(over).error.code).toBe('CPU_LIMIT_EXCEEDED');
  });

  test('a call that nobody waits for does not reach the next body of the cell', async () => {
    const lease = await sandbox.acquire({ workspaceId: 'test' });
    const script = `export async function main({ start }) {
      const key = await crypto.subtle.importKey('raw', new Uint8Array(1), 'PBKDF2', false, ['deriveBits']);
      if (start) for (let i = 0; i < 20; i++) void crypto.subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-512', salt: new Uint8Array(1), iterations: 50_000 }, key, 512);
      return start;
    }`;
    expect(resultOf(await runIn(lease, script, { args: { start: true } }))).toBe(true);
    expect(resultOf(await runIn(lease, script, { args: { start: false } }))).toBe(false);
    await lease.release();
  });
});

describe('compression streams', () => {
  test('make and read what Node makes', async () => {
    const text = 'text '.repeat(10_000);
    const result = (await evaluate(
      `const bytes = new TextEncoder().encode(args.text);
       const results = [];
       for (const format of ['gzip', 'deflate', 'deflate-raw', 'brotli']) {
         const small = await through(bytes, new CompressionStream(format));
         const back = await through(small, new DecompressionStream(format));
         results.push(small.length < 1000, new TextDecoder().decode(back) === args.text);
       }
       return { results, gzip: (await through(bytes, new CompressionStream('gzip'))).toBase64(),
         read: new TextDecoder().decode(await through(Uint8Array.fromBase64(args.gzip), new DecompressionStream('gzip'))) };`,
      { args: { text, gzip: gzipSync('from Node').toString('base64') } },
    )) as { results: boolean[]; gzip: string; read: string };
    expect(result.results).toEqual(Array(8).fill(true));
    expect(gunzipSync(Buffer.from(result.gzip, 'base64')).toString()).toBe(text);
    expect(result.read).toBe('from Node');
  });

  test('what is not valid, cut off or followed by something is a TypeError', async () => {
    const seen = await evaluate(
      `const gzip = Uint8Array.fromBase64(args.gzip);
       const wrong = new Uint8Array(gzip); wrong[gzip.length - 6] ^= 1;
       return [
         await caught(through(new Uint8Array([1, 2, 3]), new DecompressionStream('gzip'))),
         await caught(through(gzip.slice(0, -4), new DecompressionStream('gzip'))),
         await caught(through(wrong, new DecompressionStream('gzip'))),
         await caught(through(new Uint8Array([...gzip, 0]), new DecompressionStream('gzip'))),
         await caught((async () => new CompressionStream('zip'))()),
       ].map(([name]) => name);`,
      { args: { gzip: gzipSync('some text').toString('base64') } },
    );
    expect(seen).toEqual(Array(5).fill('TypeError'));
  });

  test('something small that becomes very large is read piece by piece by a function of 32 MB', async () => {
    const bomb = gzipSync(Buffer.alloc(150 * 1024 * 1024));
    const { end } = await run(
      `let size = 0;
       const stream = new Blob([Uint8Array.fromBase64(args.bomb)]).stream().pipeThrough(new DecompressionStream('gzip'));
       for await (const chunk of stream) size += chunk.length;
       return size;`,
      { type: 'STANDARD', limits: { memoryMb: limits.functionMemoryMb }, args: { bomb: bomb.toString('base64') } },
    );
    expect(end).toMatchObject({ type: 'returned', result: String(150 * 1024 * 1024) });
  });

  test('no more than 64 are open, and those that are canceled are not', async () => {
    const seen = await evaluate(`
      // A reader that waits is what lets the first bytes in.
      const open = () => {
        const stream = new CompressionStream('gzip');
        const reader = stream.readable.getReader();
        reader.read().catch(() => {});
        const written = stream.writable.getWriter().write(new Uint8Array(1));
        return { reader, written };
      };
      for (let i = 0; i < 100; i++) { const { reader, written } = open(); await written; await reader.cancel(); }
      for (let i = 0; i < 64; i++) await open().written;
      return caught(open().written);`);
    expect(seen).toEqual(['RangeError', '64 compression streams are open already; finish some of them first.', false]);
  });
});
