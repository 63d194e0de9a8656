import { limits } from '../../src/limits.ts';
import { codedError, typeError } from '../errors.ts';
import { send } from '../host.ts';
import {
  apply,
  floor,
  IntrinsicMap,
  IntrinsicPromise,
  mapDelete,
  mapGet,
  mapSet,
  max,
  now,
  promiseThen,
  toNumber,
} from '../intrinsics.ts';

interface Timer {
  id: number;
  due: number;
  /** Milliseconds between two runs; undefined for a timer that runs once. */
  every: number | undefined;
  callback: (...args: unknown[]) => unknown;
  args: unknown[];
  /** Its place in the heap. */
  index: number;
}

/** A binary heap by (due, id): a script may set and clear timers as fast as it likes. `heap[0]` is the next one. */
const heap = { __proto__: null, length: 0 } as unknown as { length: number; [index: number]: Timer };
const byId = new IntrinsicMap<unknown, unknown>();
let nextId = 1;
/** When the cell will send the next tick. It knows one wake-up at a time, so timers cost it nothing. */
let armedFor = Number.POSITIVE_INFINITY;
const longest = 2 ** 31 - 1;

const before = (a: Timer, b: Timer) => a.due < b.due || (a.due === b.due && a.id < b.id);

function place(timer: Timer, index: number): void {
  heap[index] = timer;
  timer.index = index;
}

function up(timer: Timer): void {
  let { index } = timer;
  while (index > 0) {
    const parent = floor((index - 1) / 2);
    if (!before(timer, heap[parent] as Timer)) break;
    place(heap[parent] as Timer, index);
    index = parent;
  }
  place(timer, index);
}

function down(timer: Timer): void {
  let { index } = timer;
  for (;;) {
    let child = 2 * index + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && before(heap[child + 1] as Timer, heap[child] as Timer)) child++;
    if (!before(heap[child] as Timer, timer)) break;
    place(heap[child] as Timer, index);
    index = child;
  }
  place(timer, index);
}

function add(timer: Timer): void {
  mapSet(byId, timer.id, timer);
  timer.index = heap.length++;
  up(timer);
}

function remove(timer: Timer): void {
  mapDelete(byId, timer.id);
  const last = heap[--heap.length] as Timer;
  delete heap[heap.length];
  if (last === timer) return;
  place(last, timer.index);
  up(last);
  down(last);
}

function arm(): void {
  if (heap.length === 0) return;
  const { due } = heap[0] as Timer;
  if (due >= armedFor) return;
  armedFor = due;
  send(['wake', max(0, due - now())]);
}

/** The cell's wake-up: runs the one timer that is due first, so that its microtasks run before the next one. */
export function tick(): void {
  armedFor = Number.POSITIVE_INFINITY;
  const timer = heap.length === 0 ? undefined : (heap[0] as Timer);
  if (timer === undefined || timer.due > now()) {
    arm();
    return;
  }
  remove(timer);
  if (timer.every !== undefined) {
    timer.due = now() + timer.every;
    add(timer);
  }
  arm();
  apply(timer.callback, undefined, timer.args);
}

function set(callback: unknown, delay: unknown, repeats: boolean, args: unknown[]): number {
  if (typeof callback !== 'function') throw typeError('A timer needs a function.');
  if (heap.length >= limits.timers) {
    throw codedError('CALL_NOT_ALLOWED', `${limits.timers} timers are set already; clear some of them first.`);
  }
  const wanted = toNumber(delay);
  const ms = wanted >= 1 && wanted <= longest ? floor(wanted) : 1;
  const id = nextId++;
  add({
    id,
    due: now() + ms,
    every: repeats ? ms : undefined,
    callback: callback as Timer['callback'],
    args,
    index: 0,
  });
  arm();
  return id;
}

function clear(id: unknown): void {
  const timer = mapGet(byId, id) as Timer | undefined;
  if (timer !== undefined) remove(timer);
}

/** Methods, since none of them can be called with `new`. */
export const timerGlobals = {
  setTimeout(callback: unknown, delay: unknown, ...args: unknown[]): number {
    return set(callback, delay, false, args);
  },
  setInterval(callback: unknown, delay: unknown, ...args: unknown[]): number {
    return set(callback, delay, true, args);
  },
  clearTimeout(id: unknown): void {
    clear(id);
  },
  clearInterval(id: unknown): void {
    clear(id);
  },
  queueMicrotask(callback: unknown): void {
    if (typeof callback !== 'function') throw typeError('queueMicrotask needs a function.');
    const done = new IntrinsicPromise((resolve) => {
      resolve(undefined);
    });
    promiseThen(done, () => void callback(), undefined as never);
  },
};
