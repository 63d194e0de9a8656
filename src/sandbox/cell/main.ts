/**
 * The cell: a child process of the server that runs one run at a time (rule S2). It starts with an empty environment
 * under Node's permission model, gives up root, and kills itself when its channel closes or its lease ends (D4).
 */
import { setPriority } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { limits } from '../../limits.ts';
import { type FromCell, monotonicMs, type ToCell } from '../wire.ts';
import { Body, type BodyHost, type BodyStart } from './body.ts';
import { checkedFileName, checkRefusal, checkResult, formatOf } from './check.ts';
import { openIconv } from './iconv.ts';
import { openIsolates } from './isolates.ts';
import { localCallsDone } from './local-calls.ts';
import { openScripts } from './scripts.ts';

const nobody = 65_534;
/** sandbox.md, The design, 6: how often the watchdog looks; more often the nearer a body comes to its memory bound. */
const watchMs = 8;
const nearWatchMs = 1;
const beatMs = 250;
/** How long a last message may take to be written. */
const dieMs = 20;

const die = () => process.kill(process.pid, 'SIGKILL');
const send = (message: FromCell) => {
  process.send?.(message, undefined, {}, (error) => {
    if (error) die();
  });
};

const beside = (fileName: string) => join(dirname(fileURLToPath(import.meta.url)), fileName);
const isolates = openIsolates(beside('globals'));
const iconv = openIconv(beside('iconv.cjs'));
const scripts = openScripts((hash, body) => send({ t: 'needSource', hash, body }));
/** The stack of bodies, outermost first: only the last one can be running. */
let bodies: Body[] = [];
const maps = new Map<number, (text: string | null) => void>();
let watchdog: NodeJS.Timeout | undefined;
let lastBeat = 0;
let deadline: NodeJS.Timeout | undefined;
let deadlineAt = Number.POSITIVE_INFINITY;

const host: BodyHost = {
  isolates,
  scripts,
  iconv,
  send,
  // Written at once where the channel is free; where it is not, the server sees the growth itself.
  sendAndDie(message) {
    process.send?.(message, undefined, {}, die);
    setTimeout(die, dieMs);
  },
  sourceMap(body) {
    const { promise, resolve } = Promise.withResolvers<string | null>();
    maps.set(body, resolve);
    send({ t: 'needSourceMap', body });
    return promise;
  },
  ended(body) {
    bodies = bodies.filter((other) => other !== body);
    if (bodies.length === 0) stopWatching();
  },
};

function watch(): void {
  let next = watchMs;
  for (const body of bodies) if (body.live) next = Math.min(next, body.watch());
  watchdog = bodies.length === 0 ? undefined : setTimeout(watch, Math.max(nearWatchMs, next));
  const now = performance.now();
  if (now - lastBeat < beatMs) return;
  lastBeat = now;
  send({ t: 'beat' });
}

function stopWatching(): void {
  clearTimeout(watchdog);
  watchdog = undefined;
}

function run(start: BodyStart, bodyHost: BodyHost = host): void {
  const body = new Body(start, bodyHost);
  bodies.push(body);
  watchdog ??= setTimeout(watch, watchMs);
  body.run().catch(fatal);
}

/** Checks a script for upload: evaluates it, with every host call refused. */
function check(source: string, memoryMb: number): void {
  const format = formatOf(source);
  if (typeof format !== 'string') {
    send({ t: 'checked', check: format });
    return;
  }
  const answer = (message: FromCell) => {
    if (message.t === 'end') send({ t: 'checked', check: checkResult(format, message.end) });
    else if (message.t === 'over') send(message);
  };
  run(
    {
      id: 0,
      script: { hash: '', format, fileName: checkedFileName },
      args: '{}',
      context: '{}',
      limits: { memoryMb, cpuMs: limits.uploadCpuMs, wallMs: checkWallMs },
      replay: null,
      checking: checkRefusal,
    },
    {
      ...host,
      scripts: { ...scripts, get: () => Promise.resolve({ text: source, cachedData: undefined }) },
      send: answer,
    },
  );
}

/** A check waits for nothing, so wall time only passes this when the machine is busy. */
const checkWallMs = 20_000;

async function reset(): Promise<void> {
  const all = bodies;
  bodies = [];
  stopWatching();
  maps.clear();
  // The deepest first: its parents stand still until it is gone.
  await Promise.all(all.reverse().map((body) => body.stop()));
  // Whoever is next must not pay for a call that nobody waits for any more; if it takes too long, the server kills the cell.
  await localCallsDone();
  isolates.disposeRetired();
  isolates.prepareContext();
  send({ t: 'idle' });
}

function setDeadline(at: number): void {
  deadlineAt = at;
  clearTimeout(deadline);
  deadline = setTimeout(atDeadline, Math.min(Math.max(0, at - monotonicMs()), 2 ** 31 - 1));
}

/** A newer deadline may be waiting to be read, where this process had to wait for its turn: that one counts. */
function atDeadline(): void {
  if (monotonicMs() < deadlineAt) setDeadline(deadlineAt);
  else
    setImmediate(() => {
      if (monotonicMs() >= deadlineAt) die();
    });
}

/** An error of the cell's own: no state of it can be trusted any more. */
function fatal(error: unknown): never {
  process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
  process.kill(process.pid, 'SIGKILL');
  throw error;
}

const bodyOf = (id: number) => bodies.find((body) => body.start.id === id);

// A terminal's Ctrl+C reaches every process of its group, and would look like cells that were lost (D23): what ends a
// cell is its server, or the end of its server.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
process.on('disconnect', die);
process.on('message', (message: ToCell) => {
  switch (message.t) {
    case 'deadline':
      return setDeadline(message.at);
    case 'run': {
      const { body: id, script, args, context, limits: bodyLimits, replay } = message;
      return run({ id, script, args, context, limits: bodyLimits, replay });
    }
    case 'source':
      return scripts.deliver(message.hash, message.text);
    case 'sourceMap': {
      const resolve = maps.get(message.body);
      maps.delete(message.body);
      return resolve?.(message.text);
    }
    case 'answer':
      return bodyOf(message.body)?.answer(message.call, message.answer);
    case 'reset':
      return void reset().catch(fatal);
    case 'check':
      return check(message.source, message.memoryMb);
  }
});

/** Everything is loaded by now, so nothing that another user could not read is needed any more. */
function dropPrivileges(): void {
  if (process.getuid?.() !== 0) return;
  process.setgroups?.([]);
  process.setgid?.(nobody);
  process.setuid?.(nobody);
}

isolates.prepareContext();
dropPrivileges();
// The server and the database come first (step-path.md).
setPriority(5);
send({ t: 'ready' });
