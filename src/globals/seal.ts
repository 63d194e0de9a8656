import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { SecretKey } from '../secret-key.ts';

/** AES-256-GCM with a random nonce of 96 bits: nonce, ciphertext and tag, one after the other. */
const cipher = 'aes-256-gcm';
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;

const cipherKey = (key: SecretKey) => key.derive('secrets', keyBytes);

/** Encrypts a text. It opens only with the same key and the same `place`, so nobody can swap what is stored. */
export function seal(key: SecretKey, text: string, place: readonly string[]): Buffer {
  const nonce = randomBytes(nonceBytes);
  const sealing = createCipheriv(cipher, cipherKey(key), nonce, { authTagLength: tagBytes });
  sealing.setAAD(Buffer.from(JSON.stringify(place)));
  return Buffer.concat([nonce, sealing.update(text, 'utf8'), sealing.final(), sealing.getAuthTag()]);
}

/** @throws Error when it was sealed with another key or for another place, or was changed since. */
export function unseal(key: SecretKey, sealed: Buffer, place: readonly string[]): string {
  const end = sealed.length - tagBytes;
  const opening = createDecipheriv(cipher, cipherKey(key), sealed.subarray(0, nonceBytes), { authTagLength: tagBytes });
  opening.setAAD(Buffer.from(JSON.stringify(place)));
  opening.setAuthTag(sealed.subarray(end));
  return Buffer.concat([opening.update(sealed.subarray(nonceBytes, end)), opening.final()]).toString('utf8');
}
