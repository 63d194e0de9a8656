// Builds the runtime globals: the core, which every isolate runs at its start, and the bundles, which an isolate loads
// when a script first touches what is in them. A module of the core is the same one for every bundle; a module that is
// not in the core belongs to one bundle only, so nothing in an isolate is there twice.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { build } from 'esbuild';
import { adaptStreams } from './streams-library.mjs';

const root = join(import.meta.dirname, '..');
const bundlesFolder = join(root, 'runtime-globals', 'bundles');
const common = {
  absWorkingDir: root,
  bundle: true,
  write: false,
  metafile: true,
  legalComments: 'none',
  logLevel: 'warning',
  format: 'iife',
  platform: 'neutral',
  mainFields: ['module', 'main'],
  target: 'es2024',
  // Names stay: scripts see those of classes, and stacks those of functions.
  minifyWhitespace: true,
  minifySyntax: true,
};

/** Belong to the core although nothing in it uses them: more than one bundle does. */
const forBundles = ['interface.ts', 'report.ts', 'slots.ts', 'utf8.ts', 'web/http-text.ts'].map(
  (file) => `runtime-globals/${file}`,
);

/**
 * @param folder where `core.js` and a file for each bundle go
 * @returns esbuild's metafiles of all of them
 */
export async function buildGlobals(folder) {
  const coreFiles = new Set([...Object.keys((await buildCore(new Map())).metafile.inputs), ...forBundles]);
  const exported = new Map([[intrinsics, await exportsOf(intrinsics)]]);
  const owners = new Map();
  const metafiles = [];
  mkdirSync(folder, { recursive: true });
  for (const file of readdirSync(bundlesFolder)) {
    const { text, inputs, metafile } = await buildBundle(join(bundlesFolder, file), coreFiles, exported);
    const name = basename(file, '.ts');
    metafiles.push(metafile);
    for (const input of inputs) {
      // Libraries hold no state, so two bundles may have parts of one.
      if (input.startsWith('node_modules/')) continue;
      const owner = owners.get(input);
      if (owner !== undefined) throw new Error(`${input} would be in two bundles, ${owner} and ${name}.`);
      owners.set(input, name);
    }
    writeFileSync(join(folder, `${name}.js`), text);
  }
  const core = await buildCore(exported);
  writeFileSync(join(folder, 'core.js'), core.outputFiles[0].text);
  return [core.metafile, ...metafiles];
}

/** @param exported by file of the core that bundles use, the names it exports */
function buildCore(exported) {
  const files = [...exported.keys()].sort();
  const imports = files.map(
    (file, i) => `import { ${pairs(exported.get(file), i)} } from ${json(resolve(root, file))};`,
  );
  const members = files.map((file, i) => `${json(file)}: { __proto__: null, ${fields(exported.get(file), i)} }`);
  const contents = `${imports.join('\n')}\nexport const shared = () => ({ __proto__: null, ${members.join(',\n')} });`;
  return build({
    ...common,
    entryPoints: ['runtime-globals/boot.ts'],
    plugins: [
      {
        name: 'shared',
        setup(made) {
          made.onResolve({ filter: /^jobcell:shared$/ }, () => ({ path: 'shared', namespace: 'shared' }));
          made.onLoad({ filter: /.*/, namespace: 'shared' }, () => ({ contents, resolveDir: root }));
        },
      },
    ],
  });
}

const json = JSON.stringify;
const pairs = (names, i) => names.map((name) => `${name} as _${i}_${name}`).join(', ');
const fields = (names, i) => names.map((name) => `${name}: _${i}_${name}`).join(', ');

const intrinsics = 'runtime-globals/intrinsics.ts';
const capturedNames = /export const captured = \{\s*__proto__: null,([^}]*)\}/.exec(
  readFileSync(join(root, intrinsics), 'utf8'),
)[1];

/**
 * What a bundle finds in the place of globals. Libraries look at SharedArrayBuffer, which isolates do not have, and at
 * `globalThis` for what they could use instead of their own: they would find ours.
 */
const surroundings = `
const { ${capturedNames} } = jobcellShared[${JSON.stringify(intrinsics)}].captured;
const globalThis = { __proto__: null };
const SharedArrayBuffer = class { get byteLength() { throw new TypeError(); } get growable() { throw new TypeError(); } };`;

/** The standard's patterns are regular expressions with the flag `v`; and the library's URL is ours, whatever a script does. */
function adaptUrlPattern(text) {
  const flags = 'ignoreCase?"ui":"u"';
  if (!text.includes(flags)) throw new Error('urlpattern-polyfill makes its regular expressions otherwise now.');
  const surroundings =
    "import { bundle } from '../../../runtime-globals/bundles.ts';\nconst { URL } = bundle('url');\n";
  return surroundings + text.replace(flags, 'ignoreCase?"vi":"v"');
}

/** The text of a function that takes the core's modules and returns what the bundle exports. */
async function buildBundle(entry, coreFiles, exported) {
  const { outputFiles, metafile } = await build({
    ...common,
    entryPoints: [entry],
    globalName: 'bundle',
    // esbuild's own directive comes too late to be one.
    banner: { js: `(function (jobcellShared) { 'use strict';${surroundings}` },
    footer: { js: 'return bundle;\n})' },
    plugins: [
      {
        name: 'core',
        setup(made) {
          // whatwg-url brings 380 KB of tables along: for encodings that no URL has here, and for what Node knows in the cell.
          made.onResolve({ filter: /^\./ }, ({ path, importer }) => {
            const file = relative(root, resolve(dirname(importer), path));
            return coreFiles.has(file) ? { path: file, namespace: 'core' } : undefined;
          });
          made.onLoad({ filter: /.*/, namespace: 'core' }, async ({ path }) => {
            if (!exported.has(path)) exported.set(path, await exportsOf(path));
            const names = exported.get(path).join(', ');
            return { contents: `const { ${names} } = jobcellShared[${json(path)}];\nexport { ${names} };` };
          });
          made.onResolve({ filter: /^(tr46|@exodus\/bytes\/.*|\.\/encoding)$/ }, ({ path, importer }) => {
            if (!importer.includes(join('node_modules', 'whatwg-url'))) return undefined;
            return {
              path: join(root, 'runtime-globals', 'web', path === 'tr46' ? 'url-domain.ts' : 'url-encoding.ts'),
            };
          });
          made.onLoad({ filter: /web-streams-polyfill\/dist\/ponyfill\.mjs$/ }, ({ path }) => ({
            contents: adaptStreams(readFileSync(path, 'utf8')),
          }));
          made.onLoad({ filter: /urlpattern-polyfill\/dist\/urlpattern\.js$/ }, ({ path }) => ({
            contents: adaptUrlPattern(readFileSync(path, 'utf8')),
          }));
        },
      },
    ],
  });
  const inputs = Object.keys(metafile.inputs).filter((input) => !input.startsWith('core:'));
  return { text: outputFiles[0].text, inputs, metafile };
}

async function exportsOf(file) {
  const { metafile } = await build({ ...common, entryPoints: [file], bundle: false, format: 'esm', outfile: 'x.js' });
  return Object.values(metafile.outputs)[0].exports.sort();
}
