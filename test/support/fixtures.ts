import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/paths.ts';

/** The text of a script bundle in test/fixtures/bundles. */
export const bundle = (name: string) =>
  readFileSync(join(packageRoot, 'test', 'fixtures', 'bundles', `${name}.js`), 'utf8');

/** D15: the engine's behaviour is the same when every step is followed by a replay. */
export const replayModes = ['auto', 'always'] as const;
