import type { Dispatcher } from 'undici';

/** Responses that only announce the real one (103 Early Hints ...): of one request, so many at most. */
const mostInterim = 20;
/** Chunks from here on are passed on as they are; smaller ones are put together, up to so many bytes. */
const wholeBytes = 1024;
const togetherBytes = 16 * 1024;

/** A server answered with announcements only, one after the other. */
export class TooManyInterimError extends Error {
  override readonly name = 'TooManyInterimError';
}

type Handler = Dispatcher.DispatchHandler;
type Controller = Dispatcher.DispatchController;

/**
 * An undici interceptor against servers that cost this process much, and themselves little: those that go on announcing an
 * answer, and those that send it in chunks of a byte, each of which undici holds as an object.
 */
export const boundResponses: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch(options, bounded(handler));

/** Everything else goes on to `handler`, by whichever of its methods undici looks for. */
function bounded(handler: Handler): Handler {
  let interim = 0;
  let together: Buffer | undefined;
  let size = 0;

  function flush(controller: Controller): void {
    if (together === undefined || size === 0) return;
    const bytes = Buffer.from(together.subarray(0, size));
    size = 0;
    handler.onResponseData?.(controller, bytes);
  }

  const own: Handler = {
    onResponseStart(controller, status, ...rest) {
      if (status < 200 && ++interim > mostInterim) controller.abort(new TooManyInterimError());
      else handler.onResponseStart?.(controller, status, ...rest);
    },
    onResponseData(controller, chunk) {
      if (chunk.length >= wholeBytes) {
        flush(controller);
        handler.onResponseData?.(controller, chunk);
        return;
      }
      together ??= Buffer.allocUnsafe(togetherBytes);
      if (size + chunk.length > togetherBytes) flush(controller);
      // What has come in at once goes on at once, so nothing waits for the next chunk.
      if (size === 0) setImmediate(flush, controller);
      together.set(chunk, size);
      size += chunk.length;
    },
    onResponseEnd(controller, trailers) {
      flush(controller);
      handler.onResponseEnd?.(controller, trailers);
    },
    onResponseError(controller, error) {
      flush(controller);
      handler.onResponseError?.(controller, error);
    },
  };
  return new Proxy(handler, {
    get(target, name) {
      const value: unknown = Reflect.get(Object.hasOwn(own, name) ? own : target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
