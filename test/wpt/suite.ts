import { globSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';

/** One run of a test file: with a variant of its query, where it has some. */
export interface TestFile {
  /** From the suite's root, such as `url/historical.any.js`. */
  path: string;
  /** `?include=file`, or nothing. */
  variant: string;
}

/** The `.any.js` files of some folders, in a fixed order. */
export function testsIn(suite: string, folders: string[]): TestFile[] {
  const paths = folders.flatMap((folder) =>
    globSync('**/*.any.js', { cwd: join(suite, folder) }).map((file) => posix.join(folder, file)),
  );
  return paths.sort().flatMap((path) => {
    const variants = metaOf(readFileSync(join(suite, path), 'utf8'), 'variant');
    return (variants.length === 0 ? [''] : variants).map((variant) => ({ path, variant }));
  });
}

function metaOf(text: string, key: string): string[] {
  return [...text.matchAll(new RegExp(`^//\\s*META:\\s*${key}=(.*)$`, 'gm'))].map(([, value]) => value!.trim());
}

/** Where the suite's own server finds this script. */
const webidlParser = '/resources/webidl2/lib/webidl2.js';

/** One subtest's end. */
export interface Outcome {
  name: string;
  passed: boolean;
  message: string | null;
}

/**
 * The text of a classic script that runs a test file and hands `jobcellReport` its outcomes in batches, as JSON text.
 * It is the same for a cell and for Node itself.
 * @param origin where the suite is served: what tests load of it, and the base of their relative URLs
 */
export function scriptOf(suite: string, { path, variant }: TestFile, origin: string): string {
  const text = readFileSync(join(suite, path), 'utf8');
  const included = metaOf(text, 'script').map((script) => {
    const file = script === '/resources/WebIDLParser.js' ? webidlParser : script;
    return readFileSync(join(suite, file.startsWith('/') ? file : join(dirname(path), file)), 'utf8');
  });
  const [title] = metaOf(text, 'title');
  const seconds = metaOf(text, 'timeout').includes('long') ? 50 : 15;
  return [
    `globalThis.self = globalThis;
     globalThis.META_TITLE = ${JSON.stringify(title ?? '')};
     globalThis.GLOBAL = { isWindow: () => false, isWorker: () => false, isShadowRealm: () => false };`,
    readFileSync(join(suite, 'resources', 'testharness.js'), 'utf8'),
    surroundings(`${origin}/${path}`, variant, seconds),
    ...included,
    text,
    '\n;done();',
  ].join('\n');
}

/** What a test expects of a browser around it, and where its outcomes go. */
function surroundings(url: string, variant: string, seconds: number): string {
  const { origin, pathname, host, hostname, port, protocol } = new URL(url);
  const location = { href: url + variant, origin, pathname, host, hostname, port, protocol, search: variant, hash: '' };
  return `
    setup({ explicit_timeout: true });
    globalThis.location = ${JSON.stringify(location)};
    location.toString = () => location.href;
    // For idlharness.js: what a worker has is what is looked for.
    globalThis.DedicatedWorkerGlobalScope = class { static [Symbol.hasInstance]() { return true; } };
    (() => {
      // Only what runs in a page has a base, so relative URLs are completed here.
      const complete = (input) => {
        if (typeof input !== 'string' || /^[a-z][a-z0-9+.-]*:/i.test(input)) return input;
        return URL.canParse(input, location.href) ? new URL(input, location.href).href : input;
      };
      const { fetch, Request } = globalThis;
      globalThis.fetch = (input, init) => fetch(complete(input), init);
      globalThis.Request = new Proxy(Request, {
        construct: (target, [input, ...rest], maker) => Reflect.construct(target, [complete(input), ...rest], maker),
      });
      const report = globalThis.jobcellReport;
      delete globalThis.jobcellReport;
      const { setTimeout, JSON } = globalThis;
      const { stringify } = JSON;
      let batch = [];
      const flush = () => {
        const full = batch;
        batch = [];
        if (full.length > 0) report(stringify(full));
      };
      add_result_callback(({ name, status, message }) => {
        if (batch.length === 0) setTimeout(flush, 10);
        batch.push({ name, passed: status === 0, message: status === 0 ? null : message });
      });
      add_completion_callback((tests, { status, message }) => {
        if (status !== 0) batch.push({ name: '(harness)', passed: false, message });
        flush();
        globalThis.jobcellDone();
      });
      setTimeout(() => timeout(), ${seconds * 1_000});
    })();
  `;
}
