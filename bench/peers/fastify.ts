/**
 * An HTTP server as one would write it around isolated-vm: fastify, and a bare isolate of 32 MB for every request, without
 * globals, limits of time, logs or records. Our own code is run by the synchronous interface and the script by the
 * asynchronous one, as in a cell.
 */
import fastify from 'fastify';
import ivm from 'isolated-vm';
import { serve } from './serve.ts';

const hello = 'globalThis.main = ({ name }) => ({ hello: name });';
const app = fastify();
let cachedData: ivm.ExternalCopy<ArrayBuffer> | undefined;

app.post<{ Body: { args: unknown } }>('/', async (request) => {
  const isolate = new ivm.Isolate({ memoryLimit: 32 });
  try {
    const context = isolate.createContextSync();
    const options = cachedData === undefined ? { produceCachedData: true } : { cachedData };
    const script = isolate.compileScriptSync(`${hello}\n;void 0`, options) as ivm.Script & {
      cachedData?: ivm.ExternalCopy<ArrayBuffer>;
    };
    cachedData ??= script.cachedData;
    await script.run(context);
    const main = context.global.getSync('main', { reference: true });
    const crossing = { arguments: { copy: true }, result: { copy: true, promise: true } } as const;
    return { result: await main.apply(undefined, [request.body.args], crossing) };
  } finally {
    isolate.dispose();
  }
});

const url = await app.listen({ host: '127.0.0.1', port: 0 });
serve({ url: () => Promise.resolve(url) });
