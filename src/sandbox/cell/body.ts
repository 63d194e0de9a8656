import type ivm from 'isolated-vm';
import { limits as sizes } from '../../limits.ts';
import {
  answerError,
  answerFatal,
  answerUndefined,
  answerValue,
  type Failure,
  type Inward,
  isolateCodes,
  type Outward,
  type OutwardCall,
} from '../boundary.ts';
import { crashError, kindOf, memoryLimitError, passedLimit } from '../limit-errors.ts';
import type { BodyLimits, BodyReplay, HostAnswer, LogLine, ScriptSource } from '../protocol.ts';
import type { CellBodyEnd, CodedError, FromCell } from '../wire.ts';
import { CallWindow } from './call-window.ts';
import { textCrossed } from './crossing.ts';
import { evaluate, ScriptFailure } from './evaluate.ts';
import type { Iconv } from './iconv.ts';
import type { BootedIsolate, Isolates } from './isolates.ts';

import { openLocalCalls } from './local-calls.ts';
import { answerAtOnce } from './questions.ts';
import type { CachedScript, Scripts } from './scripts.ts';
import { cleanStack, describeIsolateError, inlineSourceMap, mapStack, parseSourceMap, storable } from './stack.ts';
import { type Meter, startMeter } from './usage.ts';

export interface BodyStart {
  id: number;
  script: ScriptSource;
  args: string;
  context: string;
  limits: BodyLimits;
  replay: BodyReplay | null;
  /** The script is only evaluated and looked at; every host call is refused with this reason. */
  checking?: string;
}

export interface BodyHost {
  isolates: Isolates;
  scripts: Scripts;
  iconv: Iconv;
  send: (message: FromCell) => void;
  /** Sends this, and kills the cell: nothing less ends what is over its memory bound in time. */
  sendAndDie: (message: FromCell) => void;
  /** Asks the server for the source map uploaded beside the script. */
  sourceMap: (body: number) => Promise<string | null>;
  ended: (body: Body) => void;
}

/** Log lines wait this long for a call or the end to travel with. */
const logDelayMs = 20;
/**
 * How long an isolate that is being ended may take before the server kills the cell. Over the memory bound there is no
 * grace: an isolate that is being disposed goes on growing, by a gigabyte a second.
 */
const graceMs = { memory: 0, cpu: 500, wall: 500 };
/** A thread that is about to tell the cell something learns to halt within this; one that does not is running. */
const haltMs = 2;
/** Characters of uncaught errors that are logged for one body; they are written out here, so the isolate cannot count them. */
const uncaughtChars = sizes.logRunBytes;
/** A body that has grown by more than this is disposed at once instead of when there is time. */
const promptDisposal = 16 * 1024 * 1024;

/** One run of one body: its isolate, its calls, its limits, its end. */
export class Body {
  readonly start: BodyStart;
  readonly #host: BodyHost;
  #booted: BootedIsolate | undefined;
  #meter: Meter | undefined;
  #script: CachedScript | undefined;
  /** `main` was called. */
  #started = false;
  #ended = false;
  /** Lets the isolate go on while it stands still in a blocking call: with an answer, or with nothing to halt. */
  #release: ((answer?: string) => void) | undefined;
  /** Tasks given to the isolate that have not come back; one that blocks for ever comes back when it is disposed. */
  #tasks = 0;
  readonly #idle = Promise.withResolvers<void>();
  readonly #local = openLocalCalls();
  #nextCall = 0;
  /** The unanswered calls: the isolate's id of one that does not block. */
  readonly #calls = new Map<number, number | 'blocking'>();
  /** Codes its failure may have: those of our code in the isolate, and of the errors that it was answered with. */
  readonly #codes = new Set<string>(isolateCodes);
  #wake: NodeJS.Timeout | undefined;
  readonly #window: CallWindow;
  #uncaughtLeft: number = uncaughtChars;
  #logs: LogLine[] = [];
  #logTimer: NodeJS.Timeout | undefined;

  constructor(start: BodyStart, host: BodyHost) {
    this.start = start;
    this.#host = host;
    this.#window = new CallWindow(host.send);
  }

  /** Whether its script can be running right now: then the watchdog looks at it. */
  get live(): boolean {
    return this.#meter !== undefined && this.#release === undefined && !this.#ended;
  }

  async run(): Promise<void> {
    const { start } = this;
    const booted = this.#host.isolates.take(start.limits.memoryMb);
    this.#booted = booted;
    booted.receive = (message) => this.#receive(message);
    booted.onCatastrophe = (why) => this.#catastrophe(why);
    try {
      this.#script = await this.#host.scripts.get(start.script, start.id);
    } catch {
      this.#fail({ ...crashError('its text could not be loaded'), code: 'INTERNAL', kind: 'PLATFORM' }, null);
      return;
    }
    if (this.#ended) return;
    this.#meter = startMeter(booted.isolate, start.limits, () => this.#local.cpuMs);
    const recorded = start.replay?.segments.length;
    booted.enter.applySync(undefined, ['open', start.context, start.checking, recorded]);
    let namespace: ivm.Reference | undefined;
    try {
      namespace = await this.#task(() => evaluate(booted, start.script, this.#script as CachedScript));
    } catch (error) {
      this.#evaluationFailed(error);
      return;
    }
    if (start.checking === undefined) {
      this.#started = true;
      this.#enter(['start', start.args, namespace?.derefInto()]);
      return;
    }
    const mainKind = await this.#task(() => booted.enter.apply(undefined, ['mainKind', namespace?.derefInto()])).catch(
      (error: unknown) => {
        this.#evaluationFailed(error);
        return undefined;
      },
    );
    if (mainKind !== undefined) this.#end({ type: 'returned', result: String(mainKind) });
  }

  /** Runs something in the isolate. Unless the isolate is gone, only the body's own end or limits stop it. */
  async #task<T>(work: () => Promise<T>): Promise<T> {
    this.#tasks++;
    try {
      return await work();
    } finally {
      if (--this.#tasks === 0) {
        if (this.#ended) this.#idle.resolve();
        else if (this.#started) this.#failIfStuck();
      }
    }
  }

  #enter(message: Inward): void {
    const { enter } = this.#booted as BootedIsolate;
    this.#task(() => enter.apply(undefined, message as ivm.Transferable[])).catch((error: unknown) =>
      this.#taskRejected(error),
    );
  }

  /** What a task rejects with is an unhandled rejection of the script's, or tells that the isolate is gone. */
  #taskRejected(error: unknown): void {
    if (this.#ended) return;
    if (this.#booted?.isolate.isDisposed) {
      this.#memoryLimit();
      return;
    }
    if (this.#uncaughtLeft <= 0) return;
    const { name, message, stack } = describeIsolateError(error);
    const text = `Uncaught (in promise) ${cleanStack(stack) || `${name}: ${message}`}`;
    const line = storable(text, sizes.errorMessageBytes);
    this.#uncaughtLeft -= line.length;
    this.#log(
      'error',
      Date.now(),
      this.#uncaughtLeft > 0 ? line : 'Further uncaught errors of this run are not shown.',
    );
  }

  #evaluationFailed(error: unknown): void {
    if (this.#ended) return;
    if (this.#booted?.isolate.isDisposed) {
      this.#memoryLimit();
      return;
    }
    const described = describeIsolateError(error instanceof ScriptFailure ? error.cause : error);
    const syntax = error instanceof ScriptFailure && error.phase === 'compile';
    const failure: Failure = { ...described, mapped: false, position: null, threw: !syntax };
    if (syntax) failure.code = 'INVALID_SCRIPT';
    this.#scriptFailed(failure);
  }

  #receive(message: Outward): unknown {
    if (message[0] === 'halting') {
      if (!this.#ended) this.#fail(crashError('a host call was interrupted'), null);
      return this.#disposeNow();
    }
    if (this.#ended) return undefined;
    switch (message[0]) {
      case 'log':
        return this.#log(message[1], message[2], message[3], message[4]);
      case 'call':
        this.#call(message[1], message.slice(2) as OutwardCall);
        return true;
      case 'block': {
        this.#meter?.block();
        this.#call('blocking', message.slice(1) as OutwardCall);
        // The server is at work now, so this is the time to get the next isolate ready (step-path.md).
        // Disposal comes last: a thread that halts spins until this one comes back to its loop.
        this.#host.isolates.prepareContext();
        this.#host.isolates.disposeRetired();
        return this.#standStill();
      }
      case 'iconv':
        return this.#host.iconv(message[1], message[2], message[3]);
      case 'local':
        this.#callLocal(message[1], message[2], message[3]);
        return true;
      case 'globals':
        return this.#host.isolates.bundle(this.#booted as BootedIsolate, message[1]);
      case 'wake':
        clearTimeout(this.#wake);
        this.#wake = setTimeout(() => {
          this.#wake = undefined;
          this.#enter(['tick']);
        }, message[1]);
        return true;
      case 'returned':
        this.#end({ type: 'returned', result: message[1] });
        return this.#standStill();
      case 'failed':
        this.#scriptFailed(JSON.parse(message[1]) as Failure);
        return this.#standStill();
      default:
        return answerAtOnce(message, this.start.replay);
    }
  }

  #standStill(): Promise<string | undefined> {
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#release = resolve;
    return promise;
  }

  #call(from: number | 'blocking', [op, args, payload, position, clock, failure]: OutwardCall): void {
    const call = this.#nextCall++;
    this.#calls.set(call, from);
    textCrossed(args.length + (payload?.length ?? 0));
    const send = (finalArgs: string) => {
      this.#window.post({
        t: 'call',
        body: this.start.id,
        call,
        op,
        args: finalArgs,
        payload,
        position,
        clock: clock === '' ? [] : clock.split(',').map(Number),
        blocking: from === 'blocking',
        logs: this.#takeLogs(),
      });
    };
    if (failure === undefined) {
      send(args);
      return;
    }
    this.#errorOf(JSON.parse(failure) as Failure).then(({ kind: _, ...error }) => {
      if (!this.#ended) send(JSON.stringify([...(JSON.parse(args) as unknown[]), { error }]));
    });
  }

  #callLocal(id: number, op: string, args: string): void {
    textCrossed(args.length);
    void this.#local.call(op, args).then((text) => {
      textCrossed(text.length);
      if (!this.#ended) this.#enter(['answer', id, `${answerValue}${text}`]);
    });
  }

  /** The server's answer to a call. */
  answer(call: number, answer: HostAnswer): void {
    const from = this.#calls.get(call);
    this.#calls.delete(call);
    this.#window.answered(call);
    if (from === undefined || this.#ended) return;
    const error = 'fatal' in answer ? answer.fatal : 'error' in answer ? answer.error : undefined;
    if (error?.code !== undefined) this.#codes.add(error.code);
    const text = encodeAnswer(answer);
    textCrossed(text.length);
    if (from === 'blocking') {
      const release = this.#release;
      this.#release = undefined;
      this.#meter?.unblock();
      release?.(text);
    } else {
      this.#enter(['answer', from, text]);
    }
  }

  /** The watchdog's look at a live body. @returns when it has to look again, ms. */
  watch(): number {
    this.#look();
    return this.#meter?.untilBoundMs ?? Number.POSITIVE_INFINITY;
  }

  #look(): void {
    const which = this.#meter?.sample();
    if (which === undefined || this.#ended) return;
    const usage = (this.#meter as Meter).usage();
    this.#over(passedLimit(which, this.start.limits, usage), graceMs[which]);
  }

  #memoryLimit(): void {
    const used = this.#meter?.usage().peakMemoryBytes ?? 0;
    this.#fail(memoryLimitError(this.start.limits, used), null);
  }

  #catastrophe(why: string): void {
    if (this.#ended) return;
    const used = this.#meter?.usage().peakMemoryBytes ?? 0;
    const outOfMemory = /out-of-memory/.test(why);
    this.#over(outOfMemory ? memoryLimitError(this.start.limits, used) : crashError(why), 0);
  }

  /** Ends the isolate by force; its end is only told once no thread is in it any more. */
  #over(error: CodedError, grace: number): void {
    const usage = this.#meter?.usage() ?? noUsage(this.start.limits);
    const lines = this.#takeLogs();
    if (lines.length > 0) this.#host.send({ t: 'logs', body: this.start.id, lines });
    const over: FromCell = { t: 'over', body: this.start.id, error, usage, graceMs: grace };
    if (grace === 0) {
      this.#ended = true;
      this.#host.sendAndDie(over);
      return;
    }
    this.#host.send(over);
    this.stop().then(() => this.#tell({ type: 'failed', error, failingPosition: null }));
  }

  /** Ends the body without a word. Resolves once no thread is in its isolate any more. */
  stop(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#wake);
    this.#local.close();
    this.#window.clear();
    this.#dispose();
    if (this.#tasks === 0) this.#idle.resolve();
    return this.#idle.promise;
  }

  /**
   * Disposes the isolate while its thread runs or is out of it, never while it waits in a host call: V8 would lose the
   * interrupt. A thread that waits is told to halt, and says when it runs.
   */
  #dispose(): void {
    const release = this.#release;
    this.#release = undefined;
    if (release !== undefined) release();
    else if (this.#tasks === 0) this.#disposeNow();
    else setTimeout(() => this.#disposeNow(), haltMs);
  }

  #disposeNow(): void {
    const isolate = this.#booted?.isolate;
    if (isolate !== undefined && !isolate.isDisposed) isolate.dispose();
  }

  /** `main` waits for something that can never come: without this it would wait for its wall limit. */
  #failIfStuck(): void {
    if (this.#release !== undefined || this.#wake !== undefined) return;
    if (this.#calls.size > 0 || this.#local.pending > 0) return;
    if (this.#booted?.isolate.isDisposed) {
      this.#memoryLimit();
      return;
    }
    const message =
      'main waits for a promise that can never settle: no host call and no timer is pending. Resolve it, or return.';
    this.#fail({ name: 'Error', message, stack: '', kind: 'USER_RUNTIME' }, null);
  }

  /** The isolate says, or isolated-vm said for it, how it failed. */
  #scriptFailed(failure: Failure): void {
    // An allocation that the memory limit refused, and that the script did not catch.
    if (failure.threw && failure.name === 'RangeError' && failure.message === 'Array buffer allocation failed') {
      this.#meter?.sample();
      this.#memoryLimit();
      return;
    }
    this.#finish();
    this.#errorOf(failure).then((error) => this.#tell({ type: 'failed', error, failingPosition: failure.position }));
  }

  /** The error as people read it, its stack cleaned and mapped; then bounded, since a source map can make it longer. */
  async #errorOf({ name, message, stack, code: claimed, mapped }: Failure): Promise<CodedError> {
    const code = claimed !== undefined && this.#codes.has(claimed) ? claimed : undefined;
    const clean = cleanStack(storable(stack, sizes.errorStackBytes));
    const error: CodedError = {
      name: storable(name, sizes.errorNameBytes),
      message: storable(message, sizes.errorMessageBytes),
      stack: mapped ? clean : storable(await this.#mapped(clean), sizes.errorStackBytes),
      kind: kindOf(code),
    };
    if (code !== undefined) error.code = code;
    return error;
  }

  async #mapped(stack: string): Promise<string> {
    const { script, id, checking } = this.start;
    if (checking !== undefined || !stack.includes(script.fileName)) return stack;
    const text = inlineSourceMap(this.#script?.text ?? '') ?? (await this.#host.sourceMap(id));
    const map = parseSourceMap(text);
    return map === null ? stack : mapStack(stack, script.fileName, map);
  }

  #fail(error: CodedError, failingPosition: number | null): void {
    this.#end({ type: 'failed', error, failingPosition });
  }

  #end(end: CellBodyEnd): void {
    if (this.#ended) return;
    this.#finish();
    this.#tell(end);
  }

  /** Takes the last measure; from here on nothing the isolate says counts. */
  #finish(): void {
    this.#ended = true;
    clearTimeout(this.#wake);
    this.#local.close();
    const meter = this.#meter;
    if (meter === undefined) return;
    meter.sample();
    meter.stop();
  }

  /** Calls that the script did not wait for are made before its end is told (D5). */
  #tell(end: CellBodyEnd): void {
    this.#window.whenEmpty(() => this.#tellNow(end));
  }

  /** Sends the end, then gets rid of the isolate and makes the next one while the server is at work. */
  #tellNow(end: CellBodyEnd): void {
    const usage = this.#meter?.usage() ?? noUsage(this.start.limits);
    this.#host.send({ t: 'end', body: this.start.id, end, logs: this.#takeLogs(), usage });
    const { isolates } = this.#host;
    this.#host.ended(this);
    isolates.retire(() => this.#dispose());
    isolates.prepareIsolate();
    if ((this.#meter?.grown ?? 0) > promptDisposal) isolates.disposeRetired();
  }

  #log(level: LogLine['level'], at: number, message: string, attributes?: string): void {
    const line: LogLine = { at, level, message };
    if (attributes !== undefined) line.attributes = attributes;
    this.#logs.push(line);
    this.#logTimer ??= setTimeout(() => {
      const lines = this.#takeLogs();
      if (lines.length > 0) this.#host.send({ t: 'logs', body: this.start.id, lines });
    }, logDelayMs);
  }

  #takeLogs(): LogLine[] {
    clearTimeout(this.#logTimer);
    this.#logTimer = undefined;
    const lines = this.#logs;
    this.#logs = [];
    return lines;
  }
}

function encodeAnswer(answer: HostAnswer): string {
  if ('fatal' in answer) return answerFatal + JSON.stringify(answer.fatal);
  if ('error' in answer) return answerError + JSON.stringify(answer.error);
  return answer.value === undefined ? answerUndefined : answerValue + answer.value;
}

const noUsage = (limits: BodyLimits) => ({
  peakMemoryBytes: 0,
  memoryLimitBytes: limits.memoryMb * 1024 * 1024,
  cpuMs: 0,
  wallMs: 0,
});
