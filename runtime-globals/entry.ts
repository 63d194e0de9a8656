import { type IsolateCode, type MainKind, mainProblems } from '../src/sandbox/boundary.ts';
import { codedError } from './errors.ts';
import { failureText } from './failure.ts';
import { refuse, sendLast } from './host.ts';
import {
  AsyncGeneratorPrototype,
  defineProperty,
  functionText,
  GeneratorPrototype,
  getPrototypeOf,
  hidden,
  IntrinsicPromise,
  isPromise,
  parseJson,
  slice,
} from './intrinsics.ts';
import { toJson } from './json.ts';

type Main = (args: unknown) => unknown;

/** Export `main`, then the default export, then `globalThis.main` (behaviour.md 1). */
export function findMain(namespace: { main?: unknown; default?: unknown } | undefined): Main | undefined {
  const candidates = [namespace?.main, namespace?.default, (globalThis as { main?: unknown }).main];
  for (let i = 0; i < 3; i++) if (typeof candidates[i] === 'function') return candidates[i] as Main;
  return undefined;
}

/** What there is to run. */
export function kindOfMain(main: Main | undefined): MainKind {
  if (main === undefined) return 'none';
  const prototype = getPrototypeOf(main);
  if (prototype === GeneratorPrototype || prototype === AsyncGeneratorPrototype) return 'generator';
  return slice(functionText(main), 0, 5) === 'class' ? 'class' : 'function';
}

/** Runs `main` and tells the cell how it ended. */
export function start(argsText: string, namespace: { main?: unknown; default?: unknown } | undefined): void {
  let outcome: unknown;
  try {
    const main = findMain(namespace);
    const kind = kindOfMain(main);
    if (kind !== 'function') fail(codedError('INVALID_SCRIPT', mainProblems[kind]), false);
    outcome = (main as Main)(parseJson(argsText));
    if (typeof outcome !== 'object' || outcome === null) finish(outcome);
    const promise = isPromise(outcome)
      ? (outcome as Promise<unknown>)
      : new IntrinsicPromise((resolve) => {
          resolve(outcome);
        });
    trustPromise(promise);
    void jobcellMain(promise);
  } catch (thrown) {
    fail(thrown, true);
  }
}

/** Waits for `main`. Its name marks the asynchronous stack of whatever the body does (resolve-callback.ts). */
async function jobcellMain(promise: Promise<unknown>): Promise<never> {
  let value: unknown;
  try {
    value = await promise;
  } catch (thrown) {
    fail(thrown, true);
  }
  return finish(value);
}

/** Lets `await` take the promise as it is, whatever the script did to `constructor` and `then`. */
function trustPromise(promise: Promise<unknown>): void {
  try {
    defineProperty(promise, 'constructor', hidden(IntrinsicPromise));
  } catch {
    // A frozen promise: its own class decides, and costs the script's own time.
  }
}

function finish(value: unknown): never {
  refuse('main has ended already.');
  let result: string;
  try {
    result = toJson(value, 'result');
  } catch (thrown) {
    fail(thrown, true, 'RESULT_NOT_SERIALIZABLE');
  }
  return sendLast(['returned', result]);
}

function fail(thrown: unknown, threw: boolean, typeErrorCode?: IsolateCode): never {
  refuse('main has ended already.');
  return sendLast(['failed', failureText(thrown, threw, typeErrorCode)]);
}
