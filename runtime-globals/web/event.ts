import { asInterface, dictionary, tooFew } from '../interface.ts';
import { append, defineProperty, getOwnPropertyDescriptor, now, toDomText } from '../intrinsics.ts';
import { timeOrigin } from './performance.ts';

const NONE = 0;
const AT_TARGET = 2;

/** What `EventTarget` does with an event, and scripts cannot. */
export interface Dispatch {
  dispatching: boolean;
  initialized: boolean;
  target: object | null;
  phase: number;
  stopNow: boolean;
  stopped: boolean;
  canceled: boolean;
  /** The listener that runs is passive. */
  passive: boolean;
  trusted: boolean;
}

/** The parts of an event that only we change. */
export let dispatchOf: (event: Event) => Dispatch;
export let isEvent: (value: unknown) => value is Event;

/** There is no tree of targets in here, so an event has one target and its phases are none and at-target. */
export class Event {
  #type: string;
  #bubbles: boolean;
  #cancelable: boolean;
  readonly #composed: boolean;
  readonly #timeStamp = now() - timeOrigin;
  readonly #dispatch: Dispatch = {
    dispatching: false,
    initialized: true,
    target: null,
    phase: NONE,
    stopNow: false,
    stopped: false,
    canceled: false,
    passive: false,
    trusted: false,
  };

  static {
    dispatchOf = (event) => event.#dispatch;
    isEvent = (value): value is Event => typeof value === 'object' && value !== null && #dispatch in value;
  }

  constructor(type: unknown, init: unknown = undefined) {
    if (arguments.length === 0) throw tooFew('Event', 1, 0);
    this.#type = toDomText(type);
    const { bubbles, cancelable, composed } = dictionary(init, 'The second argument of Event');
    this.#bubbles = Boolean(bubbles);
    this.#cancelable = Boolean(cancelable);
    this.#composed = Boolean(composed);
    defineProperty(this, 'isTrusted', isTrusted);
  }

  get type(): string {
    return this.#type;
  }

  get target(): object | null {
    return this.#dispatch.target;
  }

  get srcElement(): object | null {
    return this.#dispatch.target;
  }

  get currentTarget(): object | null {
    return this.#dispatch.phase === NONE ? null : this.#dispatch.target;
  }

  composedPath(): object[] {
    const path: object[] = [];
    const { phase, target } = this.#dispatch;
    if (phase !== NONE && target !== null) append(path, target);
    return path;
  }

  get eventPhase(): number {
    return this.#dispatch.phase;
  }

  stopPropagation(): void {
    this.#dispatch.stopped = true;
  }

  get cancelBubble(): boolean {
    return this.#dispatch.stopped;
  }

  set cancelBubble(value: unknown) {
    if (value) this.#dispatch.stopped = true;
  }

  stopImmediatePropagation(): void {
    this.#dispatch.stopped = true;
    this.#dispatch.stopNow = true;
  }

  get bubbles(): boolean {
    return this.#bubbles;
  }

  get cancelable(): boolean {
    return this.#cancelable;
  }

  get returnValue(): boolean {
    return !this.#dispatch.canceled;
  }

  set returnValue(value: unknown) {
    if (!value) this.preventDefault();
  }

  preventDefault(): void {
    if (this.#cancelable && !this.#dispatch.passive) this.#dispatch.canceled = true;
  }

  get defaultPrevented(): boolean {
    return this.#dispatch.canceled;
  }

  get composed(): boolean {
    return this.#composed;
  }

  get timeStamp(): number {
    return this.#timeStamp;
  }

  initEvent(type: unknown, bubbles: unknown = false, cancelable: unknown = false): void {
    const text = toDomText(type);
    const dispatch = this.#dispatch;
    if (dispatch.dispatching) return;
    this.#type = text;
    this.#bubbles = Boolean(bubbles);
    this.#cancelable = Boolean(cancelable);
    dispatch.stopped = false;
    dispatch.stopNow = false;
    dispatch.canceled = false;
    dispatch.target = null;
    dispatch.trusted = false;
  }
}

/** On each instance, as the specification has it: one accessor for all. */
const isTrusted = {
  __proto__: null,
  get: getOwnPropertyDescriptor(
    {
      get isTrusted(): boolean {
        return dispatchOf(this as unknown as Event).trusted;
      },
    },
    'isTrusted',
  )?.get,
  set: undefined,
  enumerable: true,
  configurable: false,
} as unknown as PropertyDescriptor;

asInterface('Event', Event, { constants: { NONE, CAPTURING_PHASE: 1, AT_TARGET, BUBBLING_PHASE: 3 } });

/** An event of our own making. */
export function trustedEvent(type: string): Event {
  const event = new Event(type);
  dispatchOf(event).trusted = true;
  return event;
}

export class CustomEvent extends Event {
  #detail: unknown;

  constructor(type: unknown, init: unknown = undefined) {
    if (arguments.length === 0) throw tooFew('CustomEvent', 1, 0);
    super(type, init);
    const { detail } = dictionary(init, 'The second argument of CustomEvent');
    this.#detail = detail === undefined ? null : detail;
  }

  get detail(): unknown {
    return this.#detail;
  }

  initCustomEvent(type: unknown, bubbles: unknown = false, cancelable: unknown = false, detail: unknown = null): void {
    const { dispatching } = dispatchOf(this);
    this.initEvent(type, bubbles, cancelable);
    if (!dispatching) this.#detail = detail;
  }
}

asInterface('CustomEvent', CustomEvent);
