import { limits } from '../../src/limits.ts';
import type { LogLevel } from '../../src/sandbox/protocol.ts';
import { bundle } from '../bundles.ts';
import { typeError } from '../errors.ts';
import { create, defineProperty, own, ownKeys, stringifyJson } from '../intrinsics.ts';
import { log } from '../log.ts';
import { storable, utf8Bytes } from '../text.ts';

type Attributes = Record<string, string | number | boolean | null>;

/** `tailor.logger`: lines with attributes; `setAttributes` adds some to every later line. */
export function makeLogger() {
  let base: Attributes = create(null) as Attributes;

  const write = (level: LogLevel) => (message: unknown, attributes?: unknown) => {
    const all = merge(base, attributes);
    const text = stringifyJson(all);
    log(
      level,
      typeof message === 'string' ? message : bundle('inspect').inspect(message),
      text === '{}' ? undefined : text,
    );
  };

  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    setAttributes(attributes: unknown): void {
      base = merge(base, attributes);
    },
  };
}

/** @throws TypeError for what is no object of attributes, too many, or a key that is too long. */
function merge(base: Attributes, more: unknown): Attributes {
  const all = create(null) as Attributes;
  const keep = (key: string, value: Attributes[string]) => defineProperty(all, key, own(value));
  let count = 0;
  const baseKeys = ownKeys(base);
  for (let i = 0; i < baseKeys.length; i++) {
    const key = baseKeys[i] as string;
    keep(key, base[key] as Attributes[string]);
    count++;
  }
  if (more === undefined || more === null) return all;
  if (typeof more !== 'object') throw typeError('tailor.logger: attributes must be an object.');
  const keys = ownKeys(more);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (typeof key !== 'string') continue;
    if (utf8Bytes(key, limits.logAttributeKeyBytes) > limits.logAttributeKeyBytes) {
      throw typeError(`tailor.logger: an attribute's key has at most ${limits.logAttributeKeyBytes} bytes.`);
    }
    const name = storable(key, limits.logAttributeKeyBytes);
    if (!(name in all) && ++count > limits.logAttributes) {
      throw typeError(`tailor.logger: a line has at most ${limits.logAttributes} attributes.`);
    }
    const value: unknown = (more as Record<string, unknown>)[key];
    if (value === undefined) continue;
    const plain = typeof value === 'number' || typeof value === 'boolean' || value === null;
    const text = typeof value === 'string' ? value : plain ? '' : bundle('inspect').inspect(value);
    keep(name, plain ? value : storable(text, limits.logAttributeValueBytes));
  }
  return all;
}
