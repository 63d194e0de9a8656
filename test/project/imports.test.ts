import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';

/** Who may import whom (docs/architecture.md, Rooms). `base` is src/*.ts without main.ts. */
const allowed: Record<string, string[]> = {
  base: ['base'],
  store: ['base', 'store'],
  sandbox: ['base', 'sandbox'],
  policies: ['base', 'store', 'policies'],
  globals: ['base', 'store', 'globals'],
  engine: ['base', 'store', 'sandbox', 'policies', 'globals', 'engine'],
  functions: ['base', 'store', 'sandbox', 'policies', 'globals', 'functions'],
  api: ['base', 'store', 'sandbox', 'policies', 'globals', 'engine', 'functions', 'api'],
  main: ['base', 'store', 'sandbox', 'policies', 'globals', 'engine', 'functions', 'api'],
  cli: ['base', 'main', 'cli'],
};

interface Import {
  /** Path from the repository's root, as the importing file's. */
  file: string;
  /** A path from the repository's root, or a package's name. */
  target: string;
  typeOnly: boolean;
}

const sources = globSync('{src,runtime-globals}/**/*.ts', { cwd: packageRoot });
const textOf = (file: string) => readFileSync(join(packageRoot, file), 'utf8');

function importsOf(file: string): Import[] {
  const pattern = /^(?:import|export)\s+(type\s)?[^'"]*?from\s+'([^']+)'|^import\s+'([^']+)'|\bimport\('([^']+)'\)/gm;
  return [...textOf(file).matchAll(pattern)].map(([, type, from, bare, dynamic]) => {
    const specifier = (from ?? bare ?? dynamic)!;
    const target = specifier.startsWith('.')
      ? relative(packageRoot, join(packageRoot, dirname(file), specifier))
      : specifier;
    return { file, target, typeOnly: type !== undefined };
  });
}

function roomOf(file: string): string {
  const [top, room, ...rest] = file.split('/');
  if (top !== 'src') return top!;
  if (rest.length > 0) return room!;
  return room === 'main.ts' ? 'main' : 'base';
}

const imports = sources.flatMap(importsOf);
const isOurs = ({ target }: Import) => target.endsWith('.ts');
const line = ({ file, target }: Import) => `${file} imports ${target}`;

test('the pattern finds imports of every kind', () => {
  const dynamic = imports.filter(({ file }) => file === 'src/cli/jobcell.ts').map(({ target }) => target);
  expect(dynamic).toContain('src/cli/program.ts');
  expect(imports.filter(isOurs).length).toBeGreaterThan(100);
});

test('every import inside src goes a way that architecture.md allows', () => {
  const wrong = imports.filter(isOurs).filter(({ file, target, typeOnly }) => {
    if (!file.startsWith('src/')) return false;
    if (typeOnly && target === 'src/sandbox/protocol.ts') return false;
    return !allowed[roomOf(file)]?.includes(roomOf(target));
  });
  expect(wrong.map(line)).toEqual([]);
});

test('the script of runtime globals takes nothing but the description of the boundary and the limits from src', () => {
  const fromSource = imports.filter(
    ({ file, target }) => roomOf(file) === 'runtime-globals' && target.startsWith('src/'),
  );
  const boundary = (target: string) => roomOf(target) === 'sandbox' || /^src\/globals\/\w+-protocol\.ts$/.test(target);
  const wrong = fromSource.filter(({ target }) => !boundary(target) && target !== 'src/limits.ts');
  expect(wrong.map(line)).toEqual([]);
  // Bundled into what an isolate loads, and as trusted as our own code there.
  const libraries = /^(?:@exodus\/bytes|urlpattern-polyfill|web-streams-polyfill|whatwg-url)(?:\/|$)|^jobcell:shared$/;
  const packages = imports.filter((each) => roomOf(each.file) === 'runtime-globals' && !isOurs(each));
  expect(packages.filter(({ target }) => !libraries.test(target)).map(line)).toEqual([]);
});

test('only the cell loads isolated-vm (S1)', () => {
  const wrong = imports.filter(({ file, target, typeOnly }) => {
    return target === 'isolated-vm' && !typeOnly && !file.startsWith('src/sandbox/cell/');
  });
  expect(wrong.map(line)).toEqual([]);
});

test('SQL is in the store and nowhere else', () => {
  const outside = sources.filter((file) => roomOf(file) !== 'store');
  const wrong = outside.filter((file) => {
    const driver = importsOf(file).some(({ target, typeOnly }) => target === 'pg' && !typeOnly);
    return driver || /\.query(<[^>]*>)?\(/.test(textOf(file));
  });
  expect(wrong).toEqual([]);
});
