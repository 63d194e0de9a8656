import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from './config.ts';
import { JobcellError } from './errors.ts';

/**
 * The administrator's token: the configured one, or the one in the data folder's file `admin-token` (mode 0600), which
 * the first start generates.
 *
 * @throws JobcellError UNAVAILABLE when the file holds no usable token.
 */
export function adminToken(config: Pick<Config, 'adminToken' | 'dataDir'>): string {
  if (config.adminToken !== undefined) return config.adminToken;
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  const file = join(config.dataDir, 'admin-token');
  createOnce(file, `${randomBytes(32).toString('base64url')}\n`);
  const token = readFileSync(file, 'utf8').trim();
  if (token.length >= 16) return token;
  throw new JobcellError(
    'UNAVAILABLE',
    `${file} holds no token of at least 16 characters. Remove the file for a new one, or set JOBCELL_ADMIN_TOKEN.`,
  );
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
