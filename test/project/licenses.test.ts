import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';

const text = readFileSync(join(packageRoot, 'dist', 'LICENSES.txt'), 'utf8');
const named = [...text.matchAll(/^-{80}\n\n(\S+) (\S+) \(.+\)\n\n/gm)].map(([, name]) => name!);

test('dist/LICENSES.txt has the licence of every package whose code is in dist/', () => {
  expect(named).toContain('web-streams-polyfill');
  expect(named).toContain('urlpattern-polyfill');
  expect(named).toContain('whatwg-url');
  expect(named).toContain('iconv-lite');
  for (const name of named) {
    const folder = join(packageRoot, 'node_modules', name);
    const [file] = globSync('{LICENSE,LICENCE,License,license,COPYING}*', { cwd: folder });
    expect(text).toContain(readFileSync(join(folder, file!), 'utf8').trim());
  }
});

test('the packages that the bundles of dist/ were made of, as the source map of the cell tells, are all named', () => {
  const { sources } = JSON.parse(readFileSync(join(packageRoot, 'dist', 'cell.js.map'), 'utf8')) as {
    sources: string[];
  };
  const bundled = sources.flatMap((source) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source)?.[1] ?? []);
  expect([...new Set(bundled)].filter((name) => !named.includes(name))).toEqual([]);
});

test('the container image has the whole of dist/', () => {
  const dockerfile = readFileSync(join(packageRoot, 'Dockerfile'), 'utf8');
  expect(dockerfile).toContain('COPY --from=build /app/dist ./dist\n');
  expect(existsSync(join(packageRoot, 'dist', 'LICENSES.txt'))).toBe(true);
});
