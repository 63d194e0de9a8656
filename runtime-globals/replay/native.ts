import { apply, defineProperty, hidden, IntrinsicFunction, weakGet, weakSet } from '../intrinsics.ts';

/** What stands in for a built-in function, and the name it shows. */
const names = new WeakMap<object, unknown>();

/** Makes a function show itself as the built-in that it stands in for. */
export function asNative<F extends object>(name: string, stand: F): F {
  weakSet(names, stand, name);
  return stand;
}

/** From here on `toString` of what stands in for a built-in tells no source. */
export function hideSources(): void {
  const native = IntrinsicFunction.prototype.toString;
  const stand = {
    toString(this: object): string {
      const name = weakGet(names, this) as string | undefined;
      return name === undefined ? (apply(native, this, []) as string) : `function ${name}() { [native code] }`;
    },
  };
  defineProperty(IntrinsicFunction.prototype, 'toString', hidden(asNative('toString', stand.toString)));
}
