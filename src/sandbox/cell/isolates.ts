import ivm from 'isolated-vm';
import type { Outward } from '../boundary.ts';
import { type GlobalScript, readGlobals } from './globals.ts';

/** An isolate with a context and the runtime globals in it, before any script. */
export interface BootedIsolate {
  readonly isolate: ivm.Isolate;
  readonly context: ivm.Context;
  readonly memoryMb: number;
  /** The boot code's one function, for messages of type Inward; `applySync` only before a script is in the isolate. */
  readonly enter: ivm.Reference<(...message: unknown[]) => unknown>;
  /** What the isolate says, once a body uses it. A promise answers a call that blocks. */
  receive: (message: Outward) => unknown;
  /** V8 lost control over the isolate: nothing but killing this process helps. */
  onCatastrophe: (why: string) => void;
}

interface Spare {
  isolate: ivm.Isolate;
  memoryMb: number;
  catastrophe: { handler: (why: string) => void };
  booted: BootedIsolate | undefined;
}

export interface Isolates {
  /** Makes the spare isolate if there is none: 0.6 ms of this thread, so only while somebody else is waited for. */
  prepareIsolate(): void;
  /** Gives the spare its context and globals, likewise. */
  prepareContext(): void;
  /** Takes the spare, or makes what it lacks now. */
  take(memoryMb: number): BootedIsolate;
  /** Calls `dispose` of an isolate that is done, soon: at `disposeRetired` or by a timer. */
  retire(dispose: () => void): void;
  disposeRetired(): void;
  /**
   * The answer to `['globals', name]`: what an isolate needs to compile that script into its own context, as a value of
   * isolated-vm that moves into the isolate. It compiles in there and not from here, because whatever this thread does
   * in an isolate that waits for it runs the script's microtasks first.
   */
  bundle(booted: BootedIsolate, name: string): unknown;
}

/** The split spare of step-path.md: a cell always has the next isolate ready, made while it waits for the server. */
export function openIsolates(globalsFolder: string): Isolates {
  const { core, bundles } = readGlobals(globalsFolder);
  let spare: Spare | undefined;
  let spareMemoryMb = 256;
  let retired: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;

  function makeSpare(memoryMb: number): Spare {
    const catastrophe = { handler: (_why: string): void => {} };
    const isolate = new ivm.Isolate({
      memoryLimit: memoryMb,
      onCatastrophicError: (why) => catastrophe.handler(why),
    });
    return { isolate, memoryMb, catastrophe, booted: undefined };
  }

  /** The synchronous API: right here, where only our own code runs, and only here (sandbox.md). */
  function boot({ isolate, memoryMb, catastrophe }: Spare): BootedIsolate {
    const context = isolate.createContextSync();
    const { text, filename, cachedData } = core;
    isolate.compileScriptSync(text, { filename, cachedData }).runSync(context);
    const install = context.global.getSync('jobcellBoot', { reference: true });
    const booted: BootedIsolate = {
      isolate,
      context,
      memoryMb,
      enter: undefined as unknown as BootedIsolate['enter'],
      receive: () => undefined,
      onCatastrophe: () => {},
    };
    catastrophe.handler = (why) => booted.onCatastrophe(why);
    const host = new ivm.Reference((...message: Outward) => booted.receive(message));
    const enter = install.applySync(undefined, [host], { result: { reference: true } });
    return Object.assign(booted, { enter });
  }

  const isolates: Isolates = {
    prepareIsolate() {
      spare ??= makeSpare(spareMemoryMb);
    },
    prepareContext() {
      isolates.prepareIsolate();
      if (spare !== undefined) spare.booted ??= boot(spare);
    },
    take(memoryMb) {
      if (spare !== undefined && spare.memoryMb !== memoryMb) {
        spare.isolate.dispose();
        spare = undefined;
      }
      spareMemoryMb = memoryMb;
      const taken = spare ?? makeSpare(memoryMb);
      spare = undefined;
      return taken.booted ?? boot(taken);
    },
    retire(dispose) {
      retired.push(dispose);
      timer ??= setTimeout(isolates.disposeRetired, retireMs);
    },
    disposeRetired() {
      clearTimeout(timer);
      timer = undefined;
      const done = retired;
      retired = [];
      for (const dispose of done) dispose();
    },
    bundle({ isolate, context }, name) {
      const { text, filename, cachedData } = bundles.get(name) as GlobalScript;
      return new ivm.ExternalCopy({ isolate, context, text, filename, cachedData }).copyInto({ release: true });
    },
  };
  return isolates;
}

/** How long a finished isolate may lie around when nothing else gives this thread time to dispose it. */
const retireMs = 10;
