import { URLSearchParams as parametersInterface, URL as urlInterface } from 'whatwg-url/webidl2js-wrapper.js';
import { platformClass } from '../interface.ts';
import { apply, getPrototypeOf } from '../intrinsics.ts';
import { membersAsNative } from '../native.ts';

const installed = { Array, Object, Promise, String, TypeError } as unknown as {
  URL: new (url: unknown, base?: unknown) => object;
  URLSearchParams: (new (init?: unknown) => { keys(): object }) & { prototype: { forEach: unknown } };
};
urlInterface.install(installed, ['Worker']);
parametersInterface.install(installed, ['Worker']);

// Under other names here, or the bundler would change those of the library's classes.
const { URL: UrlClass, URLSearchParams: ParametersClass } = installed;
platformClass('URL', UrlClass);
platformClass('URLSearchParams', ParametersClass);
membersAsNative(getPrototypeOf(new ParametersClass().keys()) as object);

export { ParametersClass as URLSearchParams, UrlClass as URL };

const toParametersText = ParametersClass.prototype.toString as () => string;

/** The text of a URLSearchParams, undefined for anything else. */
export function parametersText(value: unknown): string | undefined {
  if (!parametersInterface.is(value)) return undefined;
  return apply(toParametersText, value as object as never, []) as string;
}

const forEachParameter = ParametersClass.prototype.forEach as (
  this: object,
  each: (value: string, name: string) => void,
) => void;

/** The pairs of a body that is form-urlencoded. */
export function eachParameter(text: string, each: (name: string, value: string) => void): void {
  apply(forEachParameter, new ParametersClass(text[0] === '?' ? `?${text}` : text), [
    (value, name) => each(name, value),
  ]);
}
