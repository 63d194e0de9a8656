// Builds dist/: the command line with the server in it, the cell's entry, and the script of runtime globals.
import { cpSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const dist = join(root, 'dist');
const common = { absWorkingDir: root, bundle: true, legalComments: 'none', logLevel: 'warning' };
const node = { ...common, platform: 'node', format: 'esm', target: 'node26', packages: 'external', sourcemap: true };

rmSync(dist, { recursive: true, force: true });
await Promise.all([
  build({ ...node, entryPoints: ['src/cli/jobcell.ts'], outfile: join(dist, 'jobcell.js') }),
  // The cell may read only dist/ and isolated-vm, so everything else it needs is bundled in.
  build({
    ...node,
    packages: 'bundle',
    external: ['isolated-vm'],
    entryPoints: ['src/sandbox/cell/main.ts'],
    outfile: join(dist, 'cell.js'),
  }),
  build({
    ...common,
    entryPoints: ['runtime-globals/boot.ts'],
    outfile: join(dist, 'runtime-globals.js'),
    format: 'iife',
    platform: 'neutral',
    target: 'es2024',
  }),
]);
cpSync(join(root, 'src', 'store', 'migrations'), join(dist, 'migrations'), { recursive: true });
