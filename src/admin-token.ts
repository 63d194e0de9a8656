import { randomBytes } from 'node:crypto';
import type { Config } from './config.ts';
import { generatedFile } from './data-file.ts';
import { JobcellError } from './errors.ts';

/**
 * The administrator's token: the configured one, or the one in the data folder's file `admin-token` (mode 0600), which
 * the first start generates.
 *
 * @throws JobcellError UNAVAILABLE when the file holds no usable token.
 */
export function adminToken(config: Pick<Config, 'adminToken' | 'dataDir'>): string {
  if (config.adminToken !== undefined) return config.adminToken;
  const { file, text } = generatedFile(config.dataDir, 'admin-token', () => randomBytes(32).toString('base64url'));
  if (text.length >= 16) return text;
  throw new JobcellError(
    'UNAVAILABLE',
    `${file} holds no token of at least 16 characters. Remove the file for a new one, or set JOBCELL_ADMIN_TOKEN.`,
  );
}
