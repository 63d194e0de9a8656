export { CryptoKey } from '../web/crypto-key.ts';
export { SubtleCrypto, subtle } from '../web/subtle.ts';
