// Writes V8's code caches of the runtime globals beside them: `node --no-node-snapshot scripts/code-caches.mjs FOLDER`.
// V8 takes a cache only in a process with the same snapshot, and a cell has none of Node's.
//
// V8 compiles a function at its first call, and a cache that is made right after compiling holds none of those, so every
// isolate would compile them again. Therefore our own code is played through here once before its cache is made: the
// core from boot to the end of a body that makes a call, the bundles by a script that uses what is in them.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createContext, Script } from 'node:vm';

const [folder] = process.argv.slice(2);
const names = readdirSync(folder).filter((file) => file.endsWith('.js'));
const scripts = Object.fromEntries(
  names.map((file) => {
    const name = basename(file, '.js');
    return [name, new Script(readFileSync(join(folder, file), 'utf8'), { filename: `jobcell:${name}` })];
  }),
);
const ended = new Error('The rehearsal is over.');

/** A context with the core in it, and what the cell would hold of it. */
function boot() {
  const context = createContext();
  scripts.core.runInContext(context);
  const isolate = { context, enter: undefined };
  isolate.enter = context.jobcellBoot({
    applySync: (_, message) => answers[message[0]]?.(isolate, ...message.slice(1)) ?? true,
    applySyncPromise(_, [kind]) {
      if (kind === 'block') return 'v1';
      throw ended;
    },
    applyIgnored(_, [kind]) {
      // A body that has ended halts; this is the way out.
      if (kind === 'halting') throw ended;
    },
  });
  isolate.enter('open', '{}', undefined, 0);
  return isolate;
}

/** What host calls and questions are answered with. */
const called = {
  fetch: {
    status: 200,
    statusText: 'OK',
    url: 'https://example.org/',
    redirected: false,
    headers: [['content-type', 'application/json']],
    body: 'eyJhIjox',
    more: true,
    broken: null,
  },
  fetchRead: { body: 'fQ==', done: true },
  fetchWrite: { wanted: true },
  crypto: { $key: { type: 'secret', extractable: false, algorithm: { name: 'HMAC' }, usages: ['sign'], material: '' } },
  compressionWrite: { body: 'dGV4dA==', more: false, ended: true },
};

const answers = {
  local: (isolate, ...call) => answers.call(isolate, ...call),
  call({ enter }, id, op) {
    setImmediate(() => enter('answer', id, `v${JSON.stringify(called[op] ?? null)}`));
    return true;
  },
  chance: () => 'x'.repeat(4_096),
  clock: () => '',
  url: (_, url) => `v${url}`,
  domain: () => 'xn--mnchen-3ya.de',
  globals: ({ context }, name) => ({
    isolate: { compileScriptSync: () => ({ runSync: () => ({ deref: () => scripts[name].runInContext(context) }) }) },
  }),
};

function save(name) {
  writeFileSync(join(folder, `${name}.cache`), scripts[name].createCachedData());
}

const { context, enter } = boot();
// Not a promise: then the end of the body, and with it the way out, would come later.
const main = () => context.tailor.workflow.execJobFunction('job', { rehearsed: true });
try {
  enter('start', '{}', { main });
} catch (error) {
  if (error !== ended) throw error;
}
save('core');

const uses = readFileSync(join(import.meta.dirname, 'rehearsed.js'), 'utf8');
await new Script(uses, { filename: 'rehearsed.js' }).runInContext(boot().context);
for (const name of Object.keys(scripts)) if (name !== 'core') save(name);
