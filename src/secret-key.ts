import { hkdfSync, randomBytes } from 'node:crypto';
import type { Config } from './config.ts';
import { generatedFile } from './data-file.ts';
import { JobcellError } from './errors.ts';

/** A key has at least so many characters, since everything is derived from its text as it is. */
export const secretKeyChars = 32;

/** One key of the configuration. Its text stays in here. */
export interface SecretKey {
  /** Tells keys apart without telling anything about them; stands beside what was encrypted. */
  readonly id: string;
  /** So many bytes for one purpose; those of one purpose say nothing about those of another. */
  derive(purpose: string, bytes: number): Buffer;
}

/** The server's keys: the first encrypts, all decrypt, so that a key can be replaced while servers run. */
export interface SecretKeys {
  /** @throws JobcellError NO_SECRET_KEY when the server was given none. */
  primary(): SecretKey;
  /** The key with this id, where the server has it. */
  find(id: string): SecretKey | undefined;
  all(): readonly SecretKey[];
}

/**
 * The keys of `JOBCELL_SECRET_KEY`. Without it, a server with an embedded database has the one in the data folder's file
 * `secret-key` (mode 0600), which the first start generates. With a database elsewhere there is none: a key that were
 * generated beside the server would be lost with its disk, and every secret with it, and no second server would have it.
 *
 * @throws JobcellError UNAVAILABLE when the file holds no usable key.
 */
export function secretKeys(config: Pick<Config, 'secretKeys' | 'databaseUrl' | 'dataDir'>): SecretKeys {
  const keys = textsOf(config).map(toKey);
  return {
    primary() {
      if (keys[0] !== undefined) return keys[0];
      throw new JobcellError(
        'NO_SECRET_KEY',
        'The server has no key to encrypt secrets with. Set JOBCELL_SECRET_KEY to at least ' +
          `${secretKeyChars} random characters (openssl rand -base64 32), the same on every server, and start it again.`,
      );
    },
    find: (id) => keys.find((key) => key.id === id),
    all: () => keys,
  };
}

function textsOf(config: Pick<Config, 'secretKeys' | 'databaseUrl' | 'dataDir'>): string[] {
  if (config.secretKeys !== undefined) return config.secretKeys;
  if (config.databaseUrl !== undefined) return [];
  const { file, text } = generatedFile(config.dataDir, 'secret-key', () => randomBytes(32).toString('base64url'));
  if (text.length >= secretKeyChars) return [text];
  throw new JobcellError(
    'UNAVAILABLE',
    `${file} holds no key of at least ${secretKeyChars} characters. Put the right one back, or set JOBCELL_SECRET_KEY; ` +
      'removed, a new key is generated, which cannot read what is stored already.',
  );
}

function toKey(text: string): SecretKey {
  const derive = (purpose: string, bytes: number) =>
    Buffer.from(hkdfSync('sha256', text, '', `jobcell ${purpose}`, bytes));
  return { id: derive('key id', 8).toString('hex'), derive };
}
