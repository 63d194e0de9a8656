import { domException, typeError } from '../errors.ts';
import { asInterface, dictionary } from '../interface.ts';
import { append, apply, defineProperty, getOwnPropertyDescriptor, toDomText, weakGet, weakSet } from '../intrinsics.ts';
import { reportException } from '../report.ts';
import { dispatchOf, type Event, isEvent } from './event.ts';

type Callback = ((event: Event) => unknown) | { handleEvent?: unknown };

interface Listener {
  type: string;
  callback: Callback;
  capture: boolean;
  once: boolean;
  passive: boolean;
  removed: boolean;
}

/** Dispatches an event of our own making. */
export let fire: (target: EventTarget, event: Event) => void;
/** Sets the signal up that removes a listener; `AbortSignal` gives itself in, since it is made of this class. */
export const abortSignals: {
  /** Undefined for what is no signal; calls back once, when it aborts. */
  onAbort: (signal: unknown, callback: () => void) => { aborted: boolean } | undefined;
} = { onAbort: () => undefined };

export class EventTarget {
  #listeners: Listener[] = [];

  static {
    fire = (target, event) => target.#dispatch(event);
  }

  addEventListener(type: unknown, callback: unknown, options: unknown = undefined): void {
    // A method that is called as a function has no target.
    const listeners = this.#listeners;
    const { capture, once, passive, signal } = flatten(options);
    const name = toDomText(type);
    if (signal !== undefined) {
      const state = abortSignals.onAbort(signal, () => this.removeEventListener(name, callback, capture));
      if (state === undefined) throw typeError('The signal of addEventListener is an AbortSignal.');
      if (state.aborted) return;
    }
    if (!isCallback(callback)) return;
    if (find(listeners, name, callback, capture) !== undefined) return;
    append(listeners, { type: name, callback, capture, once, passive, removed: false } satisfies Listener);
  }

  removeEventListener(type: unknown, callback: unknown, options: unknown = undefined): void {
    const listeners = this.#listeners;
    const capture =
      typeof options === 'object' && options !== null
        ? Boolean((options as { capture?: unknown }).capture)
        : Boolean(options);
    const found = find(listeners, toDomText(type), callback, capture);
    if (found !== undefined) this.#remove(found);
  }

  dispatchEvent(event: unknown): boolean {
    if (!isEvent(event)) throw typeError('dispatchEvent needs an Event.');
    // Called on what is no EventTarget, it throws before it has changed the event.
    void this.#listeners;
    const dispatch = dispatchOf(event);
    if (dispatch.dispatching) throw domException('InvalidStateError', 'The event is being dispatched already.');
    dispatch.trusted = false;
    this.#dispatch(event);
    return !dispatch.canceled;
  }

  #dispatch(event: Event): void {
    const dispatch = dispatchOf(event);
    dispatch.dispatching = true;
    dispatch.target = this;
    dispatch.phase = 2;
    // Capturing listeners come first, also at the target; what is added meanwhile hears nothing of it.
    const all = this.#listeners;
    const count = all.length;
    this.#run(all, count, true, event);
    this.#run(all, count, false, event);
    dispatch.phase = 0;
    dispatch.dispatching = false;
    dispatch.stopped = false;
    dispatch.stopNow = false;
  }

  #run(all: Listener[], count: number, capture: boolean, event: Event): void {
    const dispatch = dispatchOf(event);
    if (dispatch.stopped) return;
    for (let i = 0; i < count && !dispatch.stopNow; i++) {
      const listener = all[i] as Listener;
      if (listener.removed || listener.capture !== capture || listener.type !== event.type) continue;
      if (listener.once) this.#remove(listener);
      dispatch.passive = listener.passive;
      try {
        call(listener.callback, event, this);
      } catch (thrown) {
        reportException(thrown);
      }
      dispatch.passive = false;
    }
  }

  /** Into a new list, so that one that is being gone through stays as it is. */
  #remove(listener: Listener): void {
    listener.removed = true;
    const kept: Listener[] = [];
    for (let i = 0; i < this.#listeners.length; i++) {
      const each = this.#listeners[i] as Listener;
      if (each !== listener) append(kept, each);
    }
    this.#listeners = kept;
  }
}

asInterface('EventTarget', EventTarget);

function find(listeners: Listener[], type: string, callback: unknown, capture: boolean): Listener | undefined {
  for (let i = 0; i < listeners.length; i++) {
    const each = listeners[i] as Listener;
    if (each.type === type && each.callback === callback && each.capture === capture) return each;
  }
  return undefined;
}

function flatten(options: unknown) {
  if (typeof options !== 'object' || options === null) {
    return { capture: Boolean(options), once: false, passive: false, signal: undefined };
  }
  const { capture, once, passive, signal } = dictionary(options, 'The options of addEventListener');
  return { capture: Boolean(capture), once: Boolean(once), passive: Boolean(passive), signal };
}

/** @throws TypeError for what can never be called. Null is no listener, and no error. */
function isCallback(callback: unknown): callback is Callback {
  if (callback === null || callback === undefined) return false;
  if (typeof callback === 'function' || typeof callback === 'object') return true;
  throw typeError('A listener is a function or an object with handleEvent.');
}

function call(callback: Callback, event: Event, target: EventTarget): void {
  if (typeof callback === 'function') {
    apply(callback, target as never, [event]);
    return;
  }
  const { handleEvent } = callback;
  if (typeof handleEvent !== 'function') throw typeError('handleEvent of the listener is not a function.');
  apply(handleEvent as (event: Event) => unknown, callback, [event]);
}

/** A property such as `onabort`: a listener of its own, at the place where it was first set. */
export function eventHandler(
  Class: { prototype: EventTarget },
  type: string,
  isInstance: (value: unknown) => boolean,
): void {
  const handlers = new WeakMap<object, unknown>();
  const name = `on${type}`;
  // As it is now: a script may replace it, and must not see our listener.
  const { addEventListener } = EventTarget.prototype;
  const check = (value: unknown) => {
    if (!isInstance(value)) throw typeError(`${name} is asked of something that has none.`);
  };
  const accessor = {
    get [name](): unknown {
      check(this);
      return (weakGet(handlers, this) as { value: unknown } | undefined)?.value ?? null;
    },
    set [name](value: unknown) {
      check(this);
      const callable = typeof value === 'function' || (typeof value === 'object' && value !== null) ? value : null;
      const known = weakGet(handlers, this) as { value: unknown } | undefined;
      if (known !== undefined) known.value = callable;
      else if (callable !== null) listen(this as unknown as EventTarget, { value: callable });
    },
  };
  const listen = (self: EventTarget, handler: { value: unknown }) => {
    const listener = (event: Event) => {
      if (typeof handler.value !== 'function') return;
      if (apply(handler.value as () => unknown, self, [event] as never) === false) event.preventDefault();
    };
    apply(addEventListener as never, self, [type, listener]);
    weakSet(handlers, self, handler);
  };
  const { get, set } = getOwnPropertyDescriptor(accessor, name) as PropertyDescriptor;
  const descriptor = { __proto__: null, get, set, enumerable: true, configurable: true };
  defineProperty(Class.prototype, name, descriptor as PropertyDescriptor);
}
