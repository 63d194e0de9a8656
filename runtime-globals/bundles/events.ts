export { AbortController, AbortSignal, anySignal, isAbortSignal, onAbort, stateOf } from '../web/abort.ts';
export { DOMException } from '../web/dom-exception.ts';
export { CustomEvent, Event } from '../web/event.ts';
export { EventTarget } from '../web/event-target.ts';
