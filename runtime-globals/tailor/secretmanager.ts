import { limits } from '../../src/limits.ts';
import { typeError } from '../errors.ts';
import { callAsync } from '../host.ts';
import { inTurn } from '../in-turn.ts';
import { defineProperty, isArray, own } from '../intrinsics.ts';
import { quoted } from '../quoted.ts';

/** `tailor.secretmanager` (behaviour.md 2). Not recorded (D12): a body that is run again reads the secret as it is then. */
export const makeSecretManager = () => ({
  /** The value, undefined when the vault has no such secret. */
  async getSecret(vault: string, name: string): Promise<string | undefined> {
    const args = `[${quoted('getSecret: its first argument', vault)},[${quoted('getSecret: its second argument', name)}]]`;
    return (await read(args))[0] ?? undefined;
  },

  /** The values by name; names that the vault does not have are left out. */
  async getSecrets(vault: string, names: string[]): Promise<Record<string, string>> {
    const vaultText = quoted('getSecrets: its first argument', vault);
    if (!isArray(names)) throw typeError('getSecrets: its second argument must be an array of names.');
    if (names.length > limits.secretNames) {
      throw typeError(`getSecrets: one call reads at most ${limits.secretNames} secrets.`);
    }
    let list = '';
    const asked: string[] = [];
    for (let i = 0; i < names.length; i++) {
      const name = names[i] as string;
      list += `${i > 0 ? ',' : ''}${quoted(`getSecrets: name ${i}`, name)}`;
      defineProperty(asked, i, own(name));
    }
    const values = await read(`[${vaultText},[${list}]]`);
    const found: Record<string, string> = {};
    for (let i = 0; i < asked.length; i++) {
      const value = values[i];
      if (value !== null && value !== undefined) defineProperty(found, asked[i] as string, own(value));
    }
    return found;
  },
});

/** One after the other, since an answer may hold megabytes (S4). */
const next = inTurn();
const read = (args: string) =>
  next(() => callAsync({ op: 'getSecrets', args, payload: null, recorded: false }) as Promise<(string | null)[]>);
