import type { Logger } from 'pino';
import { JobcellError } from '../errors.ts';
import { ownNamePattern } from '../own-names.ts';
import type { SecretKey, SecretKeys } from '../secret-key.ts';
import type { Pool } from '../store/database.ts';
import {
  countSecretsOfOtherKeys,
  putSecret,
  readSecrets,
  replaceSealed,
  type SealedValue,
  type Secret,
  type SecretPlace,
  secretsOfKeys,
} from '../store/secrets.ts';
import { putVault, type Vault } from '../store/vaults.ts';
import { seal, unseal } from './seal.ts';

/** The secrets of all workspaces: written over HTTP, read by scripts. Values are encrypted before they leave this process. */
export interface Secrets {
  /** @throws JobcellError NO_SECRET_KEY: a vault without a key could never be used. */
  putVault(workspaceId: string, name: string): Promise<Vault>;
  /** Creates or replaces; null when there is no such vault. @throws JobcellError NO_SECRET_KEY */
  put(place: SecretPlace, value: string): Promise<Secret | null>;
  /**
   * The values of those of the names that there are.
   * @throws JobcellError VAULT_NOT_FOUND, NO_SECRET_KEY
   */
  read(workspaceId: string, vault: string, names: string[]): Promise<Map<string, string>>;
  /** Encrypts again, with the first key, what other keys of this server encrypted. Never rejects. */
  rotate(): Promise<void>;
}

/** Secrets of one round of a rotation. */
const rotationBatch = 100;

export function createSecrets({ pool, keys, logger }: { pool: Pool; keys: SecretKeys; logger: Logger }): Secrets {
  const sealed = (key: SecretKey, place: SecretPlace, value: string): SealedValue => ({
    keyId: key.id,
    sealed: seal(key, value, placeOf(place)),
  });

  function opened(place: SecretPlace, { keyId, sealed }: SealedValue): string {
    const key = keys.find(keyId);
    const named = `Secret ${JSON.stringify(place.name)} of the vault ${JSON.stringify(place.vault)}`;
    if (key === undefined) {
      logger.error({ keyId, ...place }, 'a secret was encrypted with a key that this server does not have');
      throw new JobcellError(
        'NO_SECRET_KEY',
        `${named} cannot be read: it was encrypted with the key ${keyId}, which this server does not have. ` +
          'Whoever runs the server has to add that key to JOBCELL_SECRET_KEY, or the secret has to be set again.',
      );
    }
    try {
      return unseal(key, sealed, placeOf(place));
    } catch (error) {
      throw new Error(`${named} was changed since it was stored, and does not open`, { cause: error });
    }
  }

  /** @returns false for a value that does not open; the others are not to wait for it. */
  async function sealedAgain(key: SecretKey, secret: SecretPlace & SealedValue): Promise<boolean> {
    let value: string;
    try {
      value = opened(secret, secret);
    } catch (error) {
      logger.error({ err: error }, 'a secret could not be encrypted again; set it anew');
      return false;
    }
    await replaceSealed(pool, secret, sealed(key, secret, value));
    return true;
  }

  async function rotateAll(): Promise<void> {
    const [first, ...others] = keys.all();
    if (first === undefined) return;
    const old = others.map(({ id }) => id);
    let rotated = 0;
    let last: SecretPlace | undefined;
    do {
      const batch = await secretsOfKeys(pool, old, rotationBatch, last);
      for (const secret of batch) if (await sealedAgain(first, secret)) rotated++;
      last = batch.at(-1);
    } while (last !== undefined);
    if (rotated > 0)
      logger.info({ secrets: rotated, keyId: first.id }, 'secrets were encrypted again with the first key');
    const unknown = await countSecretsOfOtherKeys(pool, [first.id]);
    if (unknown > 0) {
      logger.warn({ secrets: unknown }, 'some secrets were encrypted with keys that JOBCELL_SECRET_KEY does not hold');
    }
  }

  return {
    putVault(workspaceId, name) {
      keys.primary();
      return putVault(pool, workspaceId, name);
    },

    put: (place, value) => putSecret(pool, place, sealed(keys.primary(), place, value)),

    async read(workspaceId, vault, names) {
      // No vault has another name, and PostgreSQL cannot even be asked for some.
      const found = ownNamePattern.test(vault) ? await readSecrets(pool, { workspaceId, vault }, names) : null;
      if (found === null) {
        throw new JobcellError(
          'VAULT_NOT_FOUND',
          `There is no vault ${JSON.stringify(vault)} in this workspace. Create it, or correct the name.`,
        );
      }
      return new Map(found.map((secret) => [secret.name, opened({ workspaceId, vault, name: secret.name }, secret)]));
    },

    rotate: () =>
      rotateAll().catch((error: unknown) => {
        logger.error(
          { err: error },
          'secrets could not be encrypted again with the first key; the next start tries it',
        );
      }),
  };
}

const placeOf = ({ workspaceId, vault, name }: SecretPlace) => [workspaceId, vault, name];
