import { URL as urlInterface, URLSearchParams as parametersInterface } from 'whatwg-url/webidl2js-wrapper.js';
import { apply, getOwnPropertyDescriptor } from '../intrinsics.ts';

const installed = { Array, Object, Promise, String, TypeError } as unknown as {
  URL: new (url: unknown, base?: unknown) => object;
  URLSearchParams: new (init?: unknown) => object;
};
urlInterface.install(installed, ['Worker']);
parametersInterface.install(installed, ['Worker']);

// Under other names here, or the bundler would change those of the library's classes.
const { URL: UrlClass, URLSearchParams: ParametersClass } = installed;
export { ParametersClass as URLSearchParams, UrlClass as URL };

type Part = 'href' | 'protocol' | 'username' | 'password' | 'hash';

/** For code of ours: a parsed URL, whose parts are read whatever a script does to the class. Undefined: it is none. */
export function parseUrl(text: string): ((part: Part) => string) | undefined {
  let url: object;
  try {
    url = new UrlClass(text);
  } catch {
    return undefined;
  }
  return (part) => apply(getters[part], url, []) as string;
}

type Getter = () => string;
const getter = (part: Part) => getOwnPropertyDescriptor(UrlClass.prototype, part)?.get as Getter;
const getters: Record<Part, Getter> = {
  href: getter('href'),
  protocol: getter('protocol'),
  username: getter('username'),
  password: getter('password'),
  hash: getter('hash'),
};

const toParametersText = ParametersClass.prototype.toString as Getter;

/** The text of a URLSearchParams, undefined for anything else. */
export function parametersText(value: unknown): string | undefined {
  if (!parametersInterface.is(value)) return undefined;
  return apply(toParametersText, value as object as never, []) as string;
}
