import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The folder of package.json. This file runs as src/paths.ts and, bundled, from dist/: both lie right below it. */
export const packageRoot = fileURLToPath(new URL('..', import.meta.url));

/** Version of this build, from package.json. */
export function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return version;
}
