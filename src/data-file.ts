import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The text of a file of the data folder (mode 0600), which the first start writes. */
export function generatedFile(dataDir: string, name: string, make: () => string): { file: string; text: string } {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const file = join(dataDir, name);
  createOnce(file, `${make()}\n`);
  return { file, text: readFileSync(file, 'utf8').trim() };
}

/** Writes the file whole or not at all, and only if there is none: several servers may share a data folder. */
function createOnce(file: string, content: string): void {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  writeFileSync(draft, content, { mode: 0o600, flag: 'wx' });
  try {
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft);
  }
}
