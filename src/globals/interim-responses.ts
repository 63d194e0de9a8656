import type { Dispatcher } from 'undici';

/** Responses that only announce the real one (103 Early Hints ...): of one request, so many at most. */
const most = 20;

/** A server answered with announcements only, one after the other. */
export class TooManyInterimError extends Error {
  override readonly name = 'TooManyInterimError';
}

/** An undici interceptor that ends an exchange whose server goes on announcing: each costs this process time, and a script none. */
export const boundInterimResponses: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch(options, bounded(handler));

/** Everything goes on to `handler`, by whichever of its methods undici looks for. */
function bounded(handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler {
  let interim = 0;
  const onResponseStart: Dispatcher.DispatchHandler['onResponseStart'] = (controller, status, ...rest) => {
    if (status < 200 && ++interim > most) controller.abort(new TooManyInterimError());
    else handler.onResponseStart?.(controller, status, ...rest);
  };
  return new Proxy(handler, {
    get(target, name) {
      if (name === 'onResponseStart') return onResponseStart;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
