import { limits } from '../../src/limits.ts';
import { domException, typeError } from '../errors.ts';
import { callLocal } from '../host.ts';
import { asInterface, sequence } from '../interface.ts';
import {
  append,
  defineProperty,
  fromBase64,
  IntrinsicRangeError,
  isArray,
  isFiniteNumber,
  own,
  ownKeys,
  slice,
  stringifyJson,
  toBase64,
  toDomText,
} from '../intrinsics.ts';
import { bytesOf } from '../utf8.ts';
import { isCryptoKey, type KeyText, keyFrom, setCopy, textOf } from './crypto-key.ts';

/** Everything that the algorithms of Web Crypto know, but for what is a key or bytes by itself. */
const algorithmMembers = [
  'name',
  'hash',
  'modulusLength',
  'publicExponent',
  'namedCurve',
  'length',
  'iv',
  'counter',
  'additionalData',
  'tagLength',
  'label',
  'saltLength',
  'salt',
  'info',
  'iterations',
  'public',
  'context',
  'outputLength',
  'functionName',
  'customization',
  'memory',
  'passes',
  'parallelism',
  'nonce',
  'secretValue',
  'associatedData',
  'version',
];
const jwkMembers = [
  'kty',
  'use',
  'alg',
  'ext',
  'crv',
  'x',
  'y',
  'd',
  'n',
  'e',
  'p',
  'q',
  'dp',
  'dq',
  'qi',
  'k',
  'pub',
  'priv',
];

type Convert = (value: unknown) => string;

/** JSON text of bytes; of a copy made now, whatever a script does to them later. */
const bytes: Convert = (value) => {
  const found = bytesOf(value);
  if (found === undefined) throw typeError('crypto.subtle needs an ArrayBuffer or a view of one here.');
  return `{"$bytes":"${toBase64(found)}"}`;
};
const key: Convert = (value) => {
  if (!isCryptoKey(value)) throw typeError('crypto.subtle needs a CryptoKey here.');
  return keyText(textOf(value));
};
const keyText = (text: KeyText) =>
  `{"$key":{"type":"${text.type}","extractable":${text.extractable},"usages":${stringifyJson(text.usages)},` +
  `"algorithm":${stringifyJson(text.algorithm)},"material":"${text.material}"}}`;
const text: Convert = (value) => stringifyJson(toDomText(value));
const boolean: Convert = (value) => (value ? 'true' : 'false');
const texts: Convert = (value) => stringifyJson(sequence(value, 'The list of usages', toDomText));
const lengthOrNull: Convert = (value) => (value === null || value === undefined ? 'null' : member(value));
const algorithm: Convert = (value) => {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return text(value);
  return membersText(value as Record<string, unknown>, algorithmMembers);
};
const keyData: Convert = (value) => (bytesOf(value) === undefined ? jwk(value) : bytes(value));

function jwk(value: unknown): string {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) {
    throw typeError('The data of a key is bytes or a JSON Web Key.');
  }
  const made = membersText(value as Record<string, unknown>, jwkMembers);
  const operations = (value as { key_ops?: unknown }).key_ops;
  if (operations === undefined) return made;
  return `${made === '{}' ? '{' : `${slice(made, 0, -1)},`}"key_ops":${texts(operations)}}`;
}

function membersText(value: Record<string, unknown>, names: string[]): string {
  let made = '';
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string;
    const each = value[name];
    if (each === undefined) continue;
    made += `${made === '' ? '' : ','}"${name}":${member(each)}`;
  }
  return `{${made}}`;
}

/** A member of an algorithm: bytes, a key, another algorithm, a number or a text. */
function member(value: unknown): string {
  if (bytesOf(value) !== undefined) return bytes(value);
  if (isCryptoKey(value)) return key(value);
  if (typeof value === 'number') {
    if (!isFiniteNumber(value)) throw typeError('A number of an algorithm is not finite.');
    return stringifyJson(value);
  }
  if (typeof value === 'boolean') return boolean(value);
  return algorithm(value);
}

/** What each method takes. */
interface Method {
  takes: Convert[];
  /** How many of them, unless all, have to be given. */
  required?: number;
}

const methods: Record<string, Method> = {
  encrypt: { takes: [algorithm, key, bytes] },
  decrypt: { takes: [algorithm, key, bytes] },
  sign: { takes: [algorithm, key, bytes] },
  verify: { takes: [algorithm, key, bytes, bytes] },
  digest: { takes: [algorithm, bytes] },
  generateKey: { takes: [algorithm, boolean, texts] },
  deriveKey: { takes: [algorithm, key, algorithm, boolean, texts] },
  deriveBits: { takes: [algorithm, key, lengthOrNull], required: 2 },
  importKey: { takes: [text, keyData, algorithm, boolean, texts] },
  exportKey: { takes: [text, key] },
  wrapKey: { takes: [text, key, key, algorithm] },
  unwrapKey: { takes: [text, bytes, key, algorithm, algorithm, boolean, texts] },
  getPublicKey: { takes: [key, texts] },
  encapsulateBits: { takes: [algorithm, key] },
  encapsulateKey: { takes: [algorithm, key, algorithm, boolean, texts] },
  decapsulateBits: { takes: [algorithm, key, bytes] },
  decapsulateKey: { takes: [algorithm, key, bytes, algorithm, boolean, texts] },
};

/** Known to this module alone. */
const secret = {};
let isSubtle: (value: unknown) => boolean;

export class SubtleCrypto {
  readonly #brand = true;

  static {
    isSubtle = (value) => typeof value === 'object' && value !== null && #brand in value;
  }

  constructor(given: unknown = undefined) {
    if (given !== secret) throw typeError('Illegal constructor');
  }
}

const names = ownKeys(methods) as string[];
for (let m = 0; m < names.length; m++) {
  const name = names[m] as string;
  const { takes, required = takes.length } = methods[name] as Method;
  const stand = {
    async [name](this: object, ...values: unknown[]): Promise<unknown> {
      if (!isSubtle(this)) throw typeError(`SubtleCrypto.${name} is called on something else.`);
      let args = stringifyJson(name);
      for (let i = 0; i < takes.length; i++) args += `,${(takes[i] as Convert)(values[i])}`;
      return call(args);
    },
  };
  const method = stand[name] as object;
  defineProperty(method, 'length', { __proto__: null, value: required, configurable: true } as PropertyDescriptor);
  defineProperty(SubtleCrypto.prototype, name, own(method));
}
asInterface('SubtleCrypto', SubtleCrypto, { promises: names });

export const subtle = new SubtleCrypto(secret);

async function call(args: string): Promise<unknown> {
  if (args.length > limits.cryptoBytes) {
    const mib = limits.cryptoBytes / 1024 / 1024;
    throw domException('OperationError', `A call of crypto.subtle has at most ${mib} MiB of data and keys.`);
  }
  const answer = (await callLocal('crypto', `[${args}]`)) as { failed?: { name: string; message: string } } | null;
  if (typeof answer === 'object' && answer !== null && answer.failed !== undefined) throw failure(answer.failed);
  return revive(answer, ({ buffer }) => buffer);
}

function failure({ name, message }: { name: string; message: string }): Error {
  if (name === 'TypeError') return typeError(message);
  if (name === 'RangeError') return new IntrinsicRangeError(message);
  return domException(name, message);
}

/** A value as the cell wrote it: bytes and keys as they are, everything else plain JSON. */
function revive(given: unknown, toBytes: (bytes: Uint8Array) => unknown): unknown {
  if (typeof given !== 'object' || given === null) return given;
  if (isArray(given)) {
    const list: unknown[] = [];
    for (let i = 0; i < given.length; i++) append(list, revive(given[i], toBytes));
    return list;
  }
  const members = given as Record<string, unknown>;
  const names = ownKeys(members) as string[];
  if (names[0] === '$bytes') return toBytes(fromBase64(members.$bytes as string));
  if (names[0] === '$key') return keyFrom(members.$key as KeyText);
  const made = {};
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string;
    defineProperty(made, name, own(revive(members[name], toBytes)));
  }
  return made;
}

setCopy((given) => revive(given, (bytes) => bytes));
