import {
  apply,
  defineProperty,
  getOwnPropertyDescriptor,
  hidden,
  IntrinsicFunction,
  weakGet,
  weakSet,
} from './intrinsics.ts';

/** Functions of ours that show themselves as built-in, and the names they show. */
const names = new WeakMap<object, unknown>();
let hiding = false;

/** Makes a function show itself as a built-in: `toString` of it tells no source. */
export function asNative<F extends object>(name: string, stand: F): F {
  weakSet(names, stand, name);
  if (!hiding) hideSources();
  return stand;
}

function hideSources(): void {
  hiding = true;
  const { prototype } = IntrinsicFunction;
  // What a script has put there is its own.
  if (getOwnPropertyDescriptor(prototype, 'toString')?.value !== native) return;
  const stand = {
    toString(this: object): string {
      const name = weakGet(names, this) as string | undefined;
      return name === undefined ? (apply(native, this, []) as string) : `function ${name}() { [native code] }`;
    },
  };
  weakSet(names, stand.toString, 'toString');
  defineProperty(prototype, 'toString', hidden(stand.toString));
}

const { toString: native } = IntrinsicFunction.prototype;
