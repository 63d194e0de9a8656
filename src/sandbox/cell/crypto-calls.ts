import { createPrivateKey, createPublicKey, createSecretKey, KeyObject, webcrypto } from 'node:crypto';
import { limits } from '../../limits.ts';

type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

/**
 * `[method, ...arguments]` of crypto.subtle, done by Node's own. Bytes travel as `{ $bytes: base64 }` and keys as
 * `{ $key }`, with everything that makes them: the cell keeps none, so nothing of one body is ever in reach of another.
 */
export async function cryptoCall([method, ...args]: unknown[]): Promise<JsonValue> {
  const values = args.map((each) => decode(each as JsonValue));
  checkEffort(method as string, values);
  const subtle = webcrypto.subtle as unknown as Record<string, (...values: unknown[]) => Promise<unknown>>;
  return encode(await (subtle[method as string] as (...values: unknown[]) => Promise<unknown>).apply(subtle, values));
}

interface KeyText {
  type: 'secret' | 'private' | 'public';
  algorithm: JsonValue;
  extractable: boolean;
  usages: webcrypto.KeyUsage[];
  /** The secret's bytes, PKCS #8 or SPKI, in base64. */
  material: string;
}

function decode(value: JsonValue): unknown {
  if (Array.isArray(value)) return value.map(decode);
  if (typeof value !== 'object' || value === null) return value;
  if (typeof value.$bytes === 'string') return Uint8Array.from(Buffer.from(value.$bytes, 'base64'));
  if (value.$key !== undefined) return toKey(value.$key as unknown as KeyText);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, decode(member)]));
}

function encode(value: unknown): JsonValue {
  if (value instanceof ArrayBuffer) return { $bytes: Buffer.from(value).toString('base64') };
  if (ArrayBuffer.isView(value)) {
    return { $bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') };
  }
  if (value instanceof CryptoKey) return { $key: fromKey(value) as unknown as JsonValue };
  if (Array.isArray(value)) return value.map(encode);
  if (typeof value !== 'object' || value === null) return (value ?? null) as JsonValue;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, encode(member)]));
}

function toKey({ type, algorithm, extractable, usages, material }: KeyText): webcrypto.CryptoKey {
  const key = Buffer.from(material, 'base64');
  const object =
    type === 'secret'
      ? createSecretKey(key)
      : type === 'private'
        ? createPrivateKey({ key, format: 'der', type: 'pkcs8' })
        : createPublicKey({ key, format: 'der', type: 'spki' });
  return object.toCryptoKey(decode(algorithm) as Parameters<KeyObject['toCryptoKey']>[0], extractable, usages);
}

function fromKey(key: webcrypto.CryptoKey): KeyText {
  const object = KeyObject.from(key);
  const der = (type: 'pkcs8' | 'spki') => object.export({ format: 'der', type } as { format: 'der'; type: 'spki' });
  const bytes = object.type === 'secret' ? object.export() : der(object.type === 'private' ? 'pkcs8' : 'spki');
  return {
    type: key.type,
    algorithm: encode(key.algorithm),
    extractable: key.extractable,
    usages: key.usages,
    material: Buffer.from(bytes).toString('base64'),
  };
}

/** A call cannot be interrupted, so none may take more than some seconds. @throws OperationError that names the bound. */
function checkEffort(method: string, values: unknown[]): void {
  const [algorithm] = values as [{ iterations?: unknown; modulusLength?: unknown } | undefined];
  if (Number(algorithm?.iterations) > limits.cryptoIterations) {
    throw tooMuch(`PBKDF2 has at most ${limits.cryptoIterations.toLocaleString('en')} iterations here.`);
  }
  if (method === 'generateKey' && Number(algorithm?.modulusLength) > limits.cryptoModulusBits) {
    throw tooMuch(`Keys of RSA that are generated here have at most ${limits.cryptoModulusBits} bits.`);
  }
}

const tooMuch = (message: string) => new DOMException(message, 'OperationError');
