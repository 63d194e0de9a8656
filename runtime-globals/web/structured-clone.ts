import { domException, typeError } from '../errors.ts';
import { dictionary, platformOf, sequence, tooFew } from '../interface.ts';
import {
  append,
  apply,
  construct,
  defineProperty,
  errorConstructors,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  hidden,
  IntrinsicDate,
  IntrinsicError,
  IntrinsicMap,
  IntrinsicRegExp,
  IntrinsicSet,
  isArray,
  mapForEach,
  mapGet,
  mapSet,
  objectOf,
  own,
  ownKeys,
  setAdd,
  setForEach,
  toText,
  typedArrayKeys,
  typedArrayLength,
  typedArrayName,
  typedArrays,
  viewBuffer,
  viewOffset,
} from '../intrinsics.ts';
import { asNative } from '../native.ts';
import {
  kindOf,
  primitiveIn,
  readBufferSize,
  readDataViewBuffer,
  readDataViewOffset,
  readDataViewSize,
  readDate,
  readDetached,
  readFlags,
  readMaxSize,
  readResizable,
  readSource,
} from '../slots.ts';

/** What is kept of a value, of which its clone is made: a primitive as it is, an object as a record. */
type Kept = unknown;

/** `make` builds the empty clone, `fill` what is in it; apart, so that cycles find the clone already there. */
class Record {
  readonly #brand = true;

  static is(value: unknown): value is Record {
    return typeof value === 'object' && value !== null && #brand in value;
  }

  readonly make: (revive: (kept: Kept) => unknown) => object;
  fill: ((made: object, revive: (kept: Kept) => unknown) => void) | undefined;
  made: object | undefined;

  constructor(make: (revive: (kept: Kept) => unknown) => object) {
    this.make = make;
  }
}

const errorNames = {
  __proto__: null,
  EvalError: 1,
  RangeError: 1,
  ReferenceError: 1,
  SyntaxError: 1,
  TypeError: 1,
  URIError: 1,
} as unknown as { [name: string]: 1 | undefined };

const functions = {
  /** @throws DOMException DataCloneError, naming what has no clone. */
  structuredClone(value: unknown, options?: unknown): unknown {
    if (arguments.length === 0) throw tooFew('structuredClone', 1, 0);
    const { transfer } = dictionary(options, 'The options of structuredClone');
    const records = new IntrinsicMap<unknown, unknown>();
    const transferred = transferRecords(transfer, records);
    const kept = keep(value, records);
    for (let i = 0; i < transferred.length; i++) (transferred[i] as () => void)();
    return revive(kept);
  },
};

export const { structuredClone } = functions;
asNative('structuredClone', structuredClone);

/** Records of the buffers that move, and what moves each, once everything else is kept. */
function transferRecords(transfer: unknown, records: Map<unknown, unknown>): (() => void)[] {
  const moves: (() => void)[] = [];
  if (transfer === undefined) return moves;
  const list = sequence(transfer, 'transfer', (each) => each);
  for (let i = 0; i < list.length; i++) {
    const each = list[i];
    if (typeof each !== 'object' || each === null) throw typeError('structuredClone: transfer is a list of objects.');
    if (kindOf(each) !== 'buffer') throw refused(each, 'cannot be transferred');
    if (readDetached(each)) throw refused(each, 'is detached already, so it cannot be transferred');
    if (mapGet(records, each) !== undefined) throw refused(each, 'is twice in the list of transfers');
    let moved: object | undefined;
    mapSet(records, each, new Record(() => moved as object));
    append(moves, () => {
      if (readDetached(each)) throw refused(each, 'was detached meanwhile');
      moved = transferBuffer(each as ArrayBuffer);
    });
  }
  return moves;
}

const { transfer: nativeTransfer, slice: nativeSlice } = ArrayBuffer.prototype;
const transferBuffer = (buffer: ArrayBuffer) => apply(nativeTransfer, buffer, []);

function refused(value: unknown, why: string): Error {
  let text = 'The value';
  try {
    text = typeof value === 'symbol' || typeof value === 'function' ? toText(value) : objectTag(value);
  } catch {
    // A getter of the script's own that throws: then it has no text.
  }
  return domException('DataCloneError', `${text} ${why}.`);
}

const { toString: tagOf } = Object.prototype;
const objectTag = (value: unknown) => apply(tagOf, value, []);

function keep(value: unknown, records: Map<unknown, unknown>): Kept {
  if (typeof value === 'symbol' || typeof value === 'function') throw refused(value, 'could not be cloned');
  if (typeof value !== 'object' || value === null) return value;
  const known = mapGet(records, value);
  if (known !== undefined) return known;
  return keepObject(value, records);
}

function keepObject(value: object, records: Map<unknown, unknown>): Record {
  const remember = (record: Record) => {
    mapSet(records, value, record);
    return record;
  };
  const inner = (each: unknown) => keep(each, records);
  const prototype = getPrototypeOf(value) as object | null;
  if (prototype === objectOf.prototype || prototype === null)
    return keepMembers(value, remember(new Record(() => ({}))), inner);
  if (isArray(value)) {
    const { length } = value;
    return keepMembers(value, remember(new Record(() => emptyArray(length))), inner);
  }
  const platform = platformOf(value);
  if (platform !== undefined) {
    const { clonable } = platform;
    if (clonable === undefined) throw refused(value, 'could not be cloned');
    const kept = clonable.keep(value, inner);
    return remember(new Record((reviveInner) => clonable.restore(kept, reviveInner)));
  }
  switch (kindOf(value)) {
    case 'never':
      throw refused(value, 'could not be cloned');
    case 'date': {
      const time = readDate(value);
      return remember(new Record(() => new IntrinsicDate(time)));
    }
    case 'regexp': {
      const source = readSource(value);
      const flags = readFlags(value);
      return remember(new Record(() => new IntrinsicRegExp(source, flags)));
    }
    case 'buffer':
      return remember(keepBuffer(value as ArrayBuffer));
    case 'view':
      return keepView(value, remember, inner);
    case 'map':
      return keepMap(value, remember(new Record(() => new IntrinsicMap())), inner);
    case 'set':
      return keepSet(value, remember(new Record(() => new IntrinsicSet())), inner);
    case 'error':
      return keepError(value as Error, remember, inner);
    default: {
      const wrapped = primitiveIn(value);
      if (wrapped === undefined) return keepMembers(value, remember(new Record(() => ({}))), inner);
      if (typeof wrapped.primitive === 'symbol') throw refused(value, 'could not be cloned');
      return remember(new Record(() => objectOf(wrapped.primitive)));
    }
  }
}

function emptyArray(length: number): unknown[] {
  const made: unknown[] = [];
  made.length = length;
  return made;
}

/** The enumerable members with text keys. Getters run, as they do elsewhere. */
function keepMembers(value: object, record: Record, inner: (each: unknown) => Kept): Record {
  const keys = ownKeys(value);
  const names: string[] = [];
  const members: Kept[] = [];
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (typeof key !== 'string' || getOwnPropertyDescriptor(value, key)?.enumerable !== true) continue;
    append(names, key);
    append(members, inner((value as { [name: string]: unknown })[key]));
  }
  record.fill = (made, reviveInner) => {
    for (let i = 0; i < names.length; i++) defineProperty(made, names[i] as string, own(reviveInner(members[i])));
  };
  return record;
}

function keepBuffer(buffer: ArrayBuffer): Record {
  if (readDetached(buffer)) throw refused(buffer, 'is detached, so it could not be cloned');
  const copy = apply(nativeSlice, buffer, [0, readBufferSize(buffer)]) as ArrayBuffer;
  if (!readResizable(buffer)) return new Record(() => copy);
  const maxByteLength = readMaxSize(buffer);
  return new Record(() => {
    const made = new ArrayBuffer(copy.byteLength, { maxByteLength });
    new Uint8Array(made).set(new Uint8Array(copy));
    return made;
  });
}

/** A buffer that was made smaller: then the built-in members refuse to answer. */
function isOutOfBounds(view: object, name: string | undefined): boolean {
  try {
    if (name === undefined) readDataViewSize(view);
    else typedArrayKeys(view);
    return false;
  } catch {
    return true;
  }
}

function keepView(value: object, remember: (record: Record) => Record, inner: (each: unknown) => Kept): Record {
  const name = typedArrayName(value);
  if (isOutOfBounds(value, name)) throw refused(value, 'lies beyond the end of its buffer, so it could not be cloned');
  if (name === undefined) {
    const buffer = inner(readDataViewBuffer(value));
    const offset = readDataViewOffset(value);
    const size = readDataViewSize(value);
    return remember(new Record((revived) => new DataView(revived(buffer) as ArrayBuffer, offset, size)));
  }
  const buffer = inner(viewBuffer(value));
  const offset = viewOffset(value);
  const length = typedArrayLength(value);
  const Class = typedArrays[name] as Uint8ArrayConstructor;
  return remember(new Record((revived) => construct(Class, [revived(buffer), offset, length])));
}

function keepMap(value: object, record: Record, inner: (each: unknown) => Kept): Record {
  const entries: unknown[] = [];
  mapForEach(value, (member, key) => {
    append(entries, key);
    append(entries, member);
  });
  for (let i = 0; i < entries.length; i++) entries[i] = inner(entries[i]);
  record.fill = (made, revived) => {
    for (let i = 0; i < entries.length; i += 2) {
      mapSet(made as Map<unknown, unknown>, revived(entries[i]), revived(entries[i + 1]));
    }
  };
  return record;
}

function keepSet(value: object, record: Record, inner: (each: unknown) => Kept): Record {
  const members: unknown[] = [];
  setForEach(value, (member) => append(members, member));
  for (let i = 0; i < members.length; i++) members[i] = inner(members[i]);
  record.fill = (made, revived) => {
    for (let i = 0; i < members.length; i++) setAdd(made as Set<unknown>, revived(members[i]));
  };
  return record;
}

/** Its kind, message, stack and cause; no other property of it. */
function keepError(value: Error, remember: (record: Record) => Record, inner: (each: unknown) => Kept): Record {
  const name = toText(value.name);
  const Class = errorNames[name] === undefined ? IntrinsicError : (errorConstructors[name] as ErrorConstructor);
  const message = dataText(value, 'message');
  const stack = dataText(value, 'stack') ?? (typeof value.stack === 'string' ? value.stack : undefined);
  const record = remember(
    new Record(() => {
      const made = message === undefined ? new Class() : new Class(message);
      if (stack !== undefined) defineProperty(made, 'stack', hidden(stack));
      return made;
    }),
  );
  const cause = getOwnPropertyDescriptor(value, 'cause');
  if (cause === undefined || !('value' in cause)) return record;
  const kept = inner(cause.value);
  record.fill = (made, revived) => defineProperty(made, 'cause', hidden(revived(kept)));
  return record;
}

function dataText(value: object, name: string): string | undefined {
  const descriptor = getOwnPropertyDescriptor(value, name);
  return descriptor === undefined || !('value' in descriptor) ? undefined : toText(descriptor.value);
}

function revive(kept: Kept): unknown {
  if (!Record.is(kept)) return kept;
  if (kept.made !== undefined) return kept.made;
  const made = kept.make(revive);
  kept.made = made;
  kept.fill?.(made, revive);
  return made;
}
