import { domException, typeError } from '../errors.ts';
import { asInterface, sequence } from '../interface.ts';
import { append, isFiniteNumber, toNumber, trunc } from '../intrinsics.ts';
import { trustedEvent } from './event.ts';
import { abortSignals, EventTarget, eventHandler, fire } from './event-target.ts';
import { timerGlobals } from './timers.ts';

/** Known to this module alone: signals come from a controller, or the static methods. */
const key = {};

interface State {
  aborted: boolean;
  reason: unknown;
  /** What our own code does before any listener of the script's hears of it. */
  algorithms: (() => void)[];
  /** Of a signal that `any` made: the signals that it follows. */
  sources: AbortSignal[];
  dependent: boolean;
  /** Signals that follow this one. */
  followers: AbortSignal[];
}

export let stateOf: (signal: AbortSignal) => State;
export let isAbortSignal: (value: unknown) => value is AbortSignal;

export class AbortSignal extends EventTarget {
  readonly #state: State = {
    aborted: false,
    reason: undefined,
    algorithms: [],
    sources: [],
    dependent: false,
    followers: [],
  };

  static {
    stateOf = (signal) => signal.#state;
    isAbortSignal = (value): value is AbortSignal => typeof value === 'object' && value !== null && #state in value;
  }

  constructor(secret: unknown = undefined) {
    if (secret !== key) throw typeError('Illegal constructor');
    super();
  }

  static abort(reason: unknown = undefined): AbortSignal {
    const signal = new AbortSignal(key);
    signal.#state.aborted = true;
    signal.#state.reason = reason === undefined ? abortError() : reason;
    return signal;
  }

  static timeout(milliseconds: unknown): AbortSignal {
    const ms = trunc(toNumber(milliseconds));
    if (!isFiniteNumber(ms) || ms < 0 || ms > Number.MAX_SAFE_INTEGER) {
      throw typeError('AbortSignal.timeout needs a number of milliseconds.');
    }
    const signal = new AbortSignal(key);
    timerGlobals.setTimeout(() => abort(signal, domException('TimeoutError', 'The operation timed out.')), ms);
    return signal;
  }

  static any(signals: unknown): AbortSignal {
    return anySignal(
      sequence(signals, 'The argument of AbortSignal.any', (signal) => {
        if (!isAbortSignal(signal)) throw typeError('AbortSignal.any needs signals.');
        return signal;
      }),
    );
  }

  get aborted(): boolean {
    return this.#state.aborted;
  }

  get reason(): unknown {
    return this.#state.reason;
  }

  throwIfAborted(): void {
    if (this.#state.aborted) throw this.#state.reason;
  }
}

eventHandler(AbortSignal, 'abort', isAbortSignal);
asInterface('AbortSignal', AbortSignal);

const abortError = () => domException('AbortError', 'The operation was aborted.');

/** A signal that aborts with the first of the sources. */
export function anySignal(signals: AbortSignal[]): AbortSignal {
  const made = new AbortSignal(key);
  const state = stateOf(made);
  for (let i = 0; i < signals.length; i++) {
    const { aborted, reason } = stateOf(signals[i] as AbortSignal);
    if (!aborted) continue;
    state.aborted = true;
    state.reason = reason;
    return made;
  }
  state.dependent = true;
  for (let i = 0; i < signals.length; i++) {
    const signal = signals[i] as AbortSignal;
    const source = stateOf(signal);
    if (!source.dependent) follow(made, signal);
    else for (let s = 0; s < source.sources.length; s++) follow(made, source.sources[s] as AbortSignal);
  }
  return made;
}

function follow(follower: AbortSignal, source: AbortSignal): void {
  const { sources } = stateOf(follower);
  for (let i = 0; i < sources.length; i++) if (sources[i] === source) return;
  append(sources, source);
  // Held for as long as the source: a listener may be all that is left of it, and must hear the abort.
  append(stateOf(source).followers, follower);
}

function abort(signal: AbortSignal, reason: unknown): void {
  const state = stateOf(signal);
  if (state.aborted) return;
  const given = reason === undefined ? abortError() : reason;
  state.aborted = true;
  state.reason = given;
  // All are aborted before any code of the script's runs.
  const followers: AbortSignal[] = [];
  for (let i = 0; i < state.followers.length; i++) {
    const follower = state.followers[i] as AbortSignal;
    if (stateOf(follower).aborted) continue;
    stateOf(follower).aborted = true;
    stateOf(follower).reason = given;
    append(followers, follower);
  }
  run(signal);
  for (let i = 0; i < followers.length; i++) run(followers[i] as AbortSignal);
}

function run(signal: AbortSignal): void {
  const state = stateOf(signal);
  const { algorithms } = state;
  state.algorithms = [];
  state.followers = [];
  for (let i = 0; i < algorithms.length; i++) (algorithms[i] as () => void)();
  fire(signal, trustedEvent('abort'));
}

/** Calls back when the signal aborts; not if it already has. @returns what takes the callback away again. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const state = stateOf(signal);
  if (!state.aborted) append(state.algorithms, callback);
  return () => {
    const kept: (() => void)[] = [];
    for (let i = 0; i < state.algorithms.length; i++) {
      const each = state.algorithms[i] as () => void;
      if (each !== callback) append(kept, each);
    }
    state.algorithms = kept;
  };
}

abortSignals.onAbort = (signal, callback) => {
  if (!isAbortSignal(signal)) return undefined;
  onAbort(signal, callback);
  return stateOf(signal);
};

export class AbortController {
  readonly #signal = new AbortSignal(key);

  get signal(): AbortSignal {
    return this.#signal;
  }

  abort(reason: unknown = undefined): void {
    abort(this.#signal, reason);
  }
}

asInterface('AbortController', AbortController);
