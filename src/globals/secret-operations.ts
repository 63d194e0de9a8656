import { z } from 'zod';
import { limits } from '../limits.ts';
import { ownNamePattern } from '../own-names.ts';
import { untilConnected } from '../store/connection-errors.ts';
import type { Secrets } from './secrets.ts';

const readArguments = z.tuple([z.string(), z.array(z.string()).max(limits.secretNames)]);

/**
 * One run's `getSecrets`: `[vault, names]` -> the values in the order of the names, null for one that is not there.
 * @throws JobcellError VAULT_NOT_FOUND, NO_SECRET_KEY
 */
export function secretOperations(secrets: Secrets, workspaceId: string) {
  return {
    async getSecrets(args: unknown, signal: AbortSignal): Promise<(string | null)[]> {
      const [vault, names] = readArguments.parse(args);
      // No secret has another name, and PostgreSQL cannot even be asked for some.
      const possible = names.filter((name) => ownNamePattern.test(name));
      const values = await untilConnected(() => secrets.read(workspaceId, vault, possible), signal);
      return names.map((name) => values.get(name) ?? null);
    },
  };
}
