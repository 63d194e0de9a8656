export { atob, btoa } from '../web/base64.ts';
export { decoderFor, TextDecoder, TextEncoder } from '../web/encoding.ts';
