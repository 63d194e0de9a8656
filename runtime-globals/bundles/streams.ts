import {
  ByteLengthQueuingStrategy,
  CountQueuingStrategy,
  ReadableByteStreamController,
  ReadableStream,
  ReadableStreamBYOBReader,
  ReadableStreamBYOBRequest,
  ReadableStreamDefaultController,
  ReadableStreamDefaultReader,
  TransformStream,
  TransformStreamDefaultController,
  WritableStream,
  WritableStreamDefaultController,
  WritableStreamDefaultWriter,
} from 'web-streams-polyfill';
import { platformClass } from '../interface.ts';
import { getPrototypeOf, setPrototypeOf } from '../intrinsics.ts';
import { asNative, membersAsNative } from '../native.ts';

export * from 'web-streams-polyfill';
export { TextDecoderStream, TextEncoderStream } from '../web/encoding-streams.ts';
export * from '../web/stream-parts.ts';

// The library makes these iterators from a plain object.
const asyncIterators = getPrototypeOf(new ReadableStream().values()) as object;
setPrototypeOf(asyncIterators, getPrototypeOf(getPrototypeOf((async function* () {})()) as object) as object);

// The standard has dropped it; the controller's signal tells the reason.
delete (WritableStreamDefaultController.prototype as { abortReason?: unknown }).abortReason;

// These functions are no members of a class.
const none = { highWaterMark: 0 };
asNative('size', new ByteLengthQueuingStrategy(none).size);
asNative('size', new CountQueuingStrategy(none).size);
membersAsNative(asyncIterators);

platformClass('ByteLengthQueuingStrategy', ByteLengthQueuingStrategy);
platformClass('CountQueuingStrategy', CountQueuingStrategy);
platformClass('ReadableByteStreamController', ReadableByteStreamController);
platformClass('ReadableStream', ReadableStream);
platformClass('ReadableStreamBYOBReader', ReadableStreamBYOBReader);
platformClass('ReadableStreamBYOBRequest', ReadableStreamBYOBRequest);
platformClass('ReadableStreamDefaultController', ReadableStreamDefaultController);
platformClass('ReadableStreamDefaultReader', ReadableStreamDefaultReader);
platformClass('TransformStream', TransformStream);
platformClass('TransformStreamDefaultController', TransformStreamDefaultController);
platformClass('WritableStream', WritableStream);
platformClass('WritableStreamDefaultController', WritableStreamDefaultController);
platformClass('WritableStreamDefaultWriter', WritableStreamDefaultWriter);
