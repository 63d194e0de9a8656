export { TextDecoder } from '@exodus/bytes/encoding.js';
