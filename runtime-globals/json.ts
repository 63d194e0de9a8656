import { limits } from '../src/limits.ts';
import { codedError, typeError } from './errors.ts';
import { append, isFiniteNumber, isMap, isSet, stringifyJson } from './intrinsics.ts';
import { utf8Bytes } from './text.ts';

/**
 * JSON text of a value by the rules of behaviour.md 3: what JSON would silently change (NaN, Infinity, functions,
 * symbols, Map, Set) is a TypeError that names the path, as are BigInt and cycles. At most `jsonDepth` levels and
 * `payloadBytes` of UTF-8, found out before the text leaves the isolate.
 * @throws TypeError, or an error with code PAYLOAD_TOO_LARGE; what a getter or toJSON of the script's throws passes through.
 */
export function toJson(value: unknown, root: string): string {
  // The open objects from the root to the current holder, and the key that leads from each to the next.
  const holders: unknown[] = [];
  const keys: string[] = [];
  let depth = 0;
  let size = 0;

  const text = stringifyJson(value, function check(this: unknown, key: string, member: unknown): unknown {
    while (depth > 0 && holders[depth - 1] !== this) depth--;
    const type = typeof member;
    if (type === 'string') {
      size += (member as string).length;
      if (size > limits.payloadBytes) throw tooLarge(root);
    } else if (type === 'object' && member !== null) {
      for (let i = 0; i < depth; i++) {
        if (holders[i] === member)
          throw wrong(key, `refers back to ${place(root, keys, i + 1, '')}; a cycle has no JSON`);
      }
      if (isMap(member)) throw wrong(key, 'is a Map; convert it with Object.fromEntries or Array.from first');
      if (isSet(member)) throw wrong(key, 'is a Set; convert it with Array.from first');
      if (depth === limits.jsonDepth) throw typeError(`${root} is nested more than ${limits.jsonDepth} levels deep.`);
      put(holders, depth, member);
      put(keys, depth, key);
      depth++;
    } else if (type === 'number') {
      if (!isFiniteNumber(member)) throw wrong(key, `is ${member as number}, which has no JSON`);
    } else if (type === 'bigint') {
      throw wrong(key, 'is a BigInt; convert it with String or Number first');
    } else if (type === 'function' || type === 'symbol') {
      throw wrong(key, `is a ${type}, which has no JSON`);
    }
    return member;
  });

  function wrong(key: string, what: string): Error {
    return typeError(`${place(root, keys, depth, key)} ${what}.`);
  }

  if (text === undefined) return 'null';
  if (utf8Bytes(text, limits.payloadBytes) > limits.payloadBytes) throw tooLarge(root);
  return text;
}

function tooLarge(root: string): Error {
  const noun = root === 'result' ? 'The result' : `The value of ${root}`;
  return codedError(
    'PAYLOAD_TOO_LARGE',
    `${noun} is larger than ${limits.payloadBytes / 1024 / 1024} MiB of JSON text; hand on a reference to the data instead.`,
  );
}

/** `args.items[2].price`. The first key is the empty one of the root. */
function place(root: string, keys: string[], depth: number, last: string): string {
  let path = root;
  for (let i = 1; i < depth; i++) path += member(keys[i] as string);
  return depth === 0 || last === '' ? path : path + member(last);
}

function member(key: string): string {
  return isArrayIndex(key) ? `[${key}]` : `.${key}`;
}

function isArrayIndex(key: string): boolean {
  return `${(key as unknown as number) >>> 0}` === key;
}

function put<T>(list: T[], index: number, value: T): void {
  if (index === list.length) append(list, value);
  else list[index] = value;
}

/** Arguments of a job function or workflow: JSON text of an object where nothing was given. */
export function argumentsJson(value: unknown): string {
  return value === undefined || value === null ? '{}' : toJson(value, 'args');
}
