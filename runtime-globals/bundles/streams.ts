import { ReadableStream, TransformStream, WritableStream } from 'web-streams-polyfill';
import { platformClass } from '../interface.ts';

export * from 'web-streams-polyfill';
export { TextDecoderStream, TextEncoderStream } from '../web/encoding-streams.ts';
export * from '../web/stream-parts.ts';

platformClass('ReadableStream', ReadableStream);
platformClass('WritableStream', WritableStream);
platformClass('TransformStream', TransformStream);
