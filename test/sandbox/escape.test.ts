import { afterAll, beforeAll, expect, it } from 'vitest';
import type { CellLease, Sandbox } from '../../src/sandbox/sandbox.ts';
import { failureOf, messages, packageRoot, resultOf, runIn, startSandbox } from './harness.ts';

/** S3: no Reference, host stack, path or environment value is reachable from a script. One cell survives all tries. */
let sandbox: Sandbox;
let lease: CellLease;
beforeAll(async () => {
  sandbox = await startSandbox();
  lease = await sandbox.acquire({ workspaceId: 'escape' });
});
afterAll(async () => {
  await lease.release();
  await sandbox.stop();
});

const jobs = {
  ok: 'export const main = (args) => args;',
  fails: `export function main() { throw new TypeError('child'); }`,
};

/** Everything a try got hold of, as text, must hold nothing of the host. */
const hostWords = [
  '/work/',
  packageRoot,
  'node_modules',
  'node:',
  'file:',
  'isolated-vm',
  'cell.js',
  'jobcell:',
  'NODE_',
  '/usr/',
  '/home/',
  'IPC',
];

const nodeGlobals = [
  'process',
  'require',
  'module',
  'exports',
  'Buffer',
  'global',
  '__dirname',
  '__filename',
  'setImmediate',
  'ivm',
  'WebAssembly',
  'SharedArrayBuffer',
  'Atomics',
  'jobcellBoot',
  'gc',
  'd8',
  'Worker',
  'fetchSync',
  '_ivm',
  'host',
];

it.each([
  [
    'Node globals by name',
    `return [${nodeGlobals.map((name) => `typeof ${name}`)}].filter((t) => t !== 'undefined');`,
    [],
  ],
  [
    'Node globals through Function',
    `return Function('return typeof process + typeof require')();`,
    'undefinedundefined',
  ],
  [
    'constructor.constructor',
    `return typeof this?.constructor?.constructor?.('return process')?.call?.() ;`,
    undefined,
  ],
  [
    'constructors of everything at hand',
    `
    const made = [() => {}, async () => {}, function* () {}, async function* () {}, console.log, tailor.workflow.execJobFunction, setTimeout, tailor.context.getInvoker, TailorErrors];
    return made.map((f) => { try { return typeof f.constructor('return typeof process')(); } catch (e) { return e.name; } }).filter((t) => t !== 'string' && t !== 'object');`,
    [],
  ],
  [
    'the process through them',
    `
    return [console.log, tailor.workflow.execJobFunction, setTimeout, TailorErrors].map((f) => f.constructor('return typeof process')());`,
    ['undefined', 'undefined', 'undefined', 'undefined'],
  ],
  [
    'indirect eval and eval in a job answer',
    `const r = tailor.workflow.execJobFunction('ok', { c: 'typeof process' }); return [(0, eval)(r.c), eval(r.c)];`,
    ['undefined', 'undefined'],
  ],
  [
    'import()',
    `try { await import('node:fs'); return 'imported'; } catch (e) { return e instanceof Error && e.constructor === Error || e.constructor === TypeError; }`,
    true,
  ],
  [
    'import() from eval',
    `try { await (0, eval)("import('node:child_process')"); return 'imported'; } catch (e) { return e.message; }`,
    'Not supported',
  ],
  [
    'globals that are no plain JavaScript',
    `
    const seen = new Set(), found = [];
    const walk = (o, path, depth) => {
      if ((typeof o !== 'object' && typeof o !== 'function') || o === null || seen.has(o) || depth > 6) return;
      seen.add(o);
      const tag = Object.prototype.toString.call(o);
      if (/\\b(Reference|Isolate|ExternalCopy|Callback|Dereference|NativeModule|Transferable)\\b/.test(tag + ' ' + (o.constructor?.name ?? ''))) found.push(path);
      for (const k of Reflect.ownKeys(o)) { let v; try { v = o[k]; } catch { continue; } walk(v, path + '.' + String(k), depth + 1); }
      walk(Object.getPrototypeOf(o), path + '.__proto__', depth + 1);
    };
    walk(globalThis, 'globalThis', 0);
    return found;`,
    [],
  ],
  [
    'ivm methods on any function',
    `
    const names = ['applySync', 'applySyncPromise', 'derefInto', 'applyIgnored', 'copySync', 'getSync'];
    const seen = new Set(), found = [];
    const walk = (o) => { if ((typeof o !== 'object' && typeof o !== 'function') || o === null || seen.has(o)) return; seen.add(o);
      for (const n of names) if (n in o) found.push(n);
      for (const k of Reflect.ownKeys(o)) { try { walk(o[k]); } catch {} } walk(Object.getPrototypeOf(o)); };
    walk(globalThis); walk(tailor); walk(tailor.workflow); walk(console);
    return found;`,
    [],
  ],
  [
    'what loading a bundle of globals touches',
    `
    const found = new Set();
    const methods = ['compileScriptSync', 'runSync', 'applySync', 'derefInto', 'createContextSync', 'copyInto'];
    const look = (...values) => {
      for (const value of values) {
        if ((typeof value !== 'object' && typeof value !== 'function') || value === null) continue;
        for (const name of methods) if (name in value) found.add(name);
      }
    };
    const names = ['isolate', 'context', 'cachedData', 'text', 'filename', 'reference', 'release', 'copy', 'then', 'produceCachedData', 'columnOffset', 'lineOffset', 'timeout', 'promise', 'externalCopy'];
    for (const name of names) Object.defineProperty(Object.prototype, name, { configurable: true, get() { look(this); }, set(value) { look(this, value); } });
    const { apply, call, bind } = Function.prototype;
    for (const [holder, name] of [[Function.prototype, 'apply'], [Function.prototype, 'call'], [Function.prototype, 'bind'], [Reflect, 'apply'], [Reflect, 'construct'], [Object, 'defineProperty'], [Object, 'create'], [Object, 'getOwnPropertyNames'], [Map.prototype, 'set'], [Map.prototype, 'get'], [WeakMap.prototype, 'set']]) {
      const native = holder[name];
      holder[name] = function (...args) { look(this, ...args); return Reflect === holder && name === 'apply' ? native(...args) : call.call(native, this, ...args); };
      if (name === 'call') Function.prototype.call = call;
    }
    Error.prepareStackTrace = (error, sites) => { for (const site of sites) look(site.getThis(), site.getFunction()); return ''; };
    const used = [];
    for (const name of ['URL', 'EventTarget', 'ReadableStream', 'fetch', 'Blob', 'structuredClone', 'TextDecoder', 'CompressionStream', 'CryptoKey', 'URLPattern'])
      try { used.push(typeof globalThis[name]); } catch { used.push('threw'); }
    for (const name of names) delete Object.prototype[name];
    delete Error.prepareStackTrace;
    Function.prototype.apply = apply; Function.prototype.bind = bind;
    return [[...found], used.filter((type) => type === 'function').length > 5];`,
    [[], true],
  ],
  [
    'Error.prepareStackTrace call sites',
    `
    const out = [];
    Error.prepareStackTrace = (e, sites) => { for (const s of sites) out.push([typeof s.getThis(), typeof s.getFunction(), s.getFileName() === null ? '' : String(s.getFileName())]); return ''; };
    try { tailor.workflow.execJobFunction(Symbol()); } catch (e) { e.stack; }
    try { tailor.workflow.execJobFunction('ok', { toJSON() { new Error().stack; return {}; } }); } catch (e) { e.stack; }
    delete Error.prepareStackTrace;
    return out.filter(([self, fn, file]) => /jobcell/.test(file) && (self !== 'undefined' || fn !== 'undefined')).length;`,
    0,
  ],
  [
    'arguments and caller of our functions',
    `
    let got = []; function spy() { try { got.push(typeof spy.caller, typeof spy.arguments); } catch (e) { got.push(e.name); } return 'x'; }
    tailor.workflow.execJobFunction('ok', { toJSON: spy });
    return got.includes('function');`,
    false,
  ],
  [
    'getters on what an answer is parsed into',
    `
    let seen = 0;
    Object.defineProperty(Object.prototype, 'value', { configurable: true, get() { seen++; }, set() { seen++; } });
    Object.defineProperty(Object.prototype, 'error', { configurable: true, get() { seen++; }, set() { seen++; } });
    const r = tailor.workflow.execJobFunction('ok', { a: 1 });
    delete Object.prototype.value; delete Object.prototype.error;
    return [r.a, seen];`,
    [1, 0],
  ],
  [
    'setters on array elements',
    `
    const caught = [];
    for (const i of [0, 1, 2, 3]) Object.defineProperty(Array.prototype, i, { configurable: true, set(v) { caught.push(typeof v); }, get() { return undefined; } });
    const r = tailor.workflow.execJobFunction('ok', { a: { b: 1 } });
    setTimeout(() => {}, 1); console.log('x', { y: 1 });
    for (const i of [0, 1, 2, 3]) delete Array.prototype[i];
    return [r.a.b, caught];`,
    [1, []],
  ],
  [
    'replaced Reflect.apply, call and bind',
    `
    const spied = []; const { apply } = Reflect;
    Reflect.apply = (...a) => { spied.push('apply'); return apply(...a); };
    Function.prototype.call = function () { spied.push('call'); }; Function.prototype.bind = function () { spied.push('bind'); };
    const r = tailor.workflow.execJobFunction('ok', { a: 1 }); console.log('x');
    return [r.a, spied];`,
    [1, []],
  ],
  [
    'replaced JSON, Map, Promise and Error',
    `
    JSON.parse = JSON.stringify = () => 'evil'; Map.prototype.get = Map.prototype.set = () => 'evil';
    Promise.prototype.then = () => 'evil'; globalThis.Promise = globalThis.Error = globalThis.Map = globalThis.JSON = undefined;
    return tailor.workflow.execJobFunction('ok', { a: 1 });`,
    { a: 1 },
  ],
  [
    'a species of Promise',
    `
    class Evil extends Promise { static get [Symbol.species]() { return class { constructor(f) { f((v) => { globalThis.leak = v; }, () => {}); } }; } }
    Object.defineProperty(Promise.prototype, 'constructor', { get: () => Evil });
    return { leak: typeof globalThis.leak };`,
    { leak: 'undefined' },
  ],
  [
    'our functions called with a foreign this',
    `
    const { execJobFunction } = tailor.workflow;
    return [execJobFunction.call(null, 'ok', { a: 1 }), Reflect.apply(execJobFunction, Symbol(), ['ok', { a: 2 }])];`,
    [{ a: 1 }, { a: 2 }],
  ],
  [
    'replaced tailor, without touching the next body',
    `globalThis.tailor = { context: null }; return typeof tailor.workflow;`,
    'undefined',
  ],
  [
    'a Proxy as argument',
    `return tailor.workflow.execJobFunction('ok', new Proxy({ a: 1 }, { getPrototypeOf() { return Map.prototype; } })) === 1;`,
    undefined,
  ],
  [
    '__proto__ in JSON',
    `const r = tailor.workflow.execJobFunction('ok', JSON.parse('{"__proto__": {"polluted": 1}}')); return [({}).polluted === undefined, Object.keys(r)];`,
    [true, ['__proto__']],
  ],
  [
    'a Temporal or Intl way to the host',
    `return [typeof Intl.DateTimeFormat().resolvedOptions().timeZone, typeof Temporal];`,
    undefined,
  ],
] as const)('nothing of the host: %s', async (_, code, expected) => {
  const run = await runIn(lease, `export async function main() { ${code} }`, { jobs, limits: { cpuMs: 5_000 } });
  if (run.end.type === 'returned' && expected !== undefined) expect(resultOf(run)).toEqual(expected);
  else expect(['returned', 'failed']).toContain(run.end.type);
  const everything = JSON.stringify([run.end, messages(run.logs)]);
  for (const word of hostWords) expect(everything).not.toContain(word);
});

it.each([
  [
    'a stack overflow inside our functions',
    `let calls = 0; (function f() { try { f(); } catch (e) { if (calls++ < 200) tailor.workflow.execJobFunction('ok', {}); throw e; } })();`,
  ],
  ['an error of our own', 'tailor.workflow.execJobFunction(1);'],
  ['a failed job', `tailor.workflow.execJobFunction('fails');`],
  ['a failed start', `await tailor.workflow.startWorkflow('x', { n: NaN });`],
  ['an async stack', `await new Promise((r) => setTimeout(r, 1)); await (async () => { await null; null.x; })();`],
  ['a throw in toJSON', `tailor.workflow.execJobFunction('ok', { toJSON() { throw new Error('mine'); } });`],
  ['a thenable that throws', `return { then() { throw new Error('mine'); } };`],
  ['every frame that V8 can give', `Error.stackTraceLimit = Infinity; throw new Error('deep');`],
])('a stack holds no frame of the host: %s', async (_, code) => {
  const run = await runIn(lease, `export async function main() { ${code} }`, { jobs });
  const { error } = failureOf(run);
  for (const word of hostWords) expect(error.stack).not.toContain(word);
});

it('a cell has an empty environment, no files and no way back to root', async () => {
  const { readFileSync } = await import('node:fs');
  const environment = readFileSync(`/proc/${lease.pid}/environ`, 'latin1');
  expect(environment.split('\0').filter((entry) => entry !== '' && !entry.startsWith('NODE_CHANNEL_'))).toEqual([]);
  const status = readFileSync(`/proc/${lease.pid}/status`, 'latin1');
  if (process.getuid?.() === 0) expect(status).toMatch(/^Uid:\t65534\t65534\t65534\t65534$/m);
  const command = readFileSync(`/proc/${lease.pid}/cmdline`, 'latin1');
  expect(command).toContain('--permission');
  expect(command).not.toContain('--allow-child-process');
  expect(command).not.toContain('--allow-fs-write');
});
