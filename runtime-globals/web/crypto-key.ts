import { typeError } from '../errors.ts';
import { asInterface } from '../interface.ts';

/** What the cell knows a key by: everything that makes it, since it keeps none itself. */
export interface KeyText {
  type: string;
  extractable: boolean;
  algorithm: unknown;
  usages: string[];
  material: string;
}

/** In place of what a script could give the constructor. */
class Secret {
  readonly key: KeyText;
  readonly #brand = true;

  constructor(key: KeyText) {
    this.key = key;
  }

  static is(value: unknown): value is Secret {
    return typeof value === 'object' && value !== null && #brand in value;
  }
}

export let textOf: (key: CryptoKey) => KeyText;
export let isCryptoKey: (value: unknown) => value is CryptoKey;

export class CryptoKey {
  readonly #text: KeyText;
  /** What scripts see of them; that the cell gets is ours. */
  readonly #shown: { algorithm: unknown; usages: string[] };

  static {
    textOf = (key) => key.#text;
    isCryptoKey = (value): value is CryptoKey => typeof value === 'object' && value !== null && #text in value;
  }

  constructor(secret: unknown = undefined) {
    if (!Secret.is(secret)) throw typeError('Illegal constructor');
    this.#text = secret.key;
    const { algorithm, usages } = this.#text;
    this.#shown = { algorithm: copyOf(algorithm), usages: copyOf(usages) as string[] };
  }

  get type(): string {
    return this.#text.type;
  }

  get extractable(): boolean {
    return this.#text.extractable;
  }

  get algorithm(): unknown {
    return this.#shown.algorithm;
  }

  get usages(): string[] {
    return this.#shown.usages;
  }
}

asInterface('CryptoKey', CryptoKey, {
  clonable: { keep: (instance) => instance, restore: (kept) => keyFrom(textOf(kept as CryptoKey)) },
});

export const keyFrom = (key: KeyText): CryptoKey => new CryptoKey(new Secret(key));

/** Set by subtle.ts, which knows how values look on their way. */
let copyOf: (value: unknown) => unknown;
export function setCopy(copy: (value: unknown) => unknown): void {
  copyOf = copy;
}
