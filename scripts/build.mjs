// Builds dist/: the command line with the server in it, the cell's entry and the library it loads on demand, the
// scripts of runtime globals, and the licences of what is bundled into these.
// The build is made beside its place and then swapped in, so that a running server, a failed build or a second build
// at the same time never meets half of one.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { buildGlobals } from './globals.mjs';
import { licensesOf, packagesIn } from './licenses.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const dist = join(root, 'dist');
const draft = mkdtempSync(join(root, '.dist-'));
const common = { absWorkingDir: root, bundle: true, metafile: true, legalComments: 'none', logLevel: 'warning' };
const node = { ...common, platform: 'node', format: 'esm', target: 'node26', packages: 'external', sourcemap: true };

try {
  const [entry, cell, iconv, globals] = await Promise.all([
    // Split, so that the entry loads on an older Node, which it replaces by the packaged one.
    build({
      ...node,
      entryPoints: ['src/cli/jobcell.ts'],
      outdir: draft,
      splitting: true,
      chunkNames: 'jobcell-[name]-[hash]',
    }),
    // The cell may read only dist/ and isolated-vm, so everything else it needs is bundled in.
    build({
      ...node,
      packages: 'bundle',
      external: ['isolated-vm'],
      entryPoints: ['src/sandbox/cell/main.ts'],
      outfile: join(draft, 'cell.js'),
    }),
    build({
      ...common,
      entryPoints: ['iconv-lite'],
      outfile: join(draft, 'iconv.cjs'),
      format: 'cjs',
      platform: 'node',
      minify: true,
    }),
    buildGlobals(join(draft, 'globals')),
  ]);
  const metafiles = [...[entry, cell, iconv].map(({ metafile }) => metafile), ...globals];
  writeFileSync(join(draft, 'LICENSES.txt'), licensesOf(packagesIn(metafiles)));
  execFileSync(process.execPath, ['--no-node-snapshot', 'scripts/code-caches.mjs', join(draft, 'globals')], {
    cwd: root,
    stdio: 'inherit',
  });
  cpSync(join(root, 'src', 'store', 'migrations'), join(draft, 'migrations'), { recursive: true });
  swapIn();
} catch (error) {
  // esbuild has already shown its own errors.
  if (!Array.isArray(error.errors)) throw error;
  process.exitCode = 1;
} finally {
  rmSync(draft, { recursive: true, force: true });
}

function swapIn() {
  // mkdtemp makes it private, but a root server's cells run under another user.
  chmodSync(draft, 0o755);
  const old = `${draft}-old`;
  for (;;) {
    try {
      renameSync(dist, old);
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
    try {
      renameSync(draft, dist);
      return;
    } catch (error) {
      // Another build was faster: take its place.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    } finally {
      rmSync(old, { recursive: true, force: true });
    }
  }
}
