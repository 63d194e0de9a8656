export { decoderFor, TextDecoder, TextEncoder } from '../web/encoding.ts';
