export * from 'web-streams-polyfill';
export { TextDecoderStream, TextEncoderStream } from '../web/encoding-streams.ts';
export * from '../web/stream-parts.ts';
