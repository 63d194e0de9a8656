import { createContext, Script } from 'node:vm';
import type { Inward, Outward } from '../boundary.ts';

type Enter = (...message: Inward) => unknown;

interface Rehearsed {
  jobcellBoot: (host: Record<string, (receiver: undefined, message: Outward) => unknown>) => Enter;
  tailor: { workflow: { execJobFunction: (name: string, args: unknown) => unknown } };
}

/**
 * V8's code cache of the runtime globals. V8 compiles a function at its first call, and the cache that is made right
 * after compiling holds none of those, so every isolate would compile them again: 0.12 ms of each start. Therefore our
 * own code is played through once in a context of this process, from boot to the end of a body that makes a call; no
 * script of anybody is in it. V8 takes the cache only from a process without Node's snapshot, as a cell is.
 */
export function rehearse(globals: string, filename: string): ArrayBuffer {
  const script = new Script(globals, { filename });
  const context = createContext() as unknown as Rehearsed;
  script.runInContext(context as object);
  const ended = new Error('The rehearsal is over.');
  const enter = context.jobcellBoot({
    applySync: () => true,
    applySyncPromise(_, [kind]) {
      if (kind === 'block') return 'v1';
      throw ended;
    },
    applyIgnored(_, [kind]) {
      // A body that has ended halts; this is the way out.
      if (kind === 'halting') throw ended;
    },
  });
  enter('open', '{}', undefined, 0);
  // Not a promise: then the end of the body, and with it the way out, would come later.
  const main = () => context.tailor.workflow.execJobFunction('job', { rehearsed: true });
  try {
    enter('start', '{}', { main });
  } catch (error) {
    if (error !== ended) throw error;
  }
  return new Uint8Array(script.createCachedData()).buffer;
}
