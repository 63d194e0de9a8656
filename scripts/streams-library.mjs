// web-streams-polyfill as the runtime globals have it: its state is no enumerable property of a stream, and what it takes
// of the surroundings it takes of ours, when it is needed, whatever a script has made of the globals.

/** Names that the library also writes as methods and in object literals, on objects that no script sees. */
const internal = /[{,}]_([a-zA-Z]\w*)[(:]/g;
const member = /\._([a-zA-Z]\w*)\b/g;

const surroundings = `
import { bundle } from '../../../runtime-globals/bundles.ts';
const AbortController = function () {
  return new (bundle('events').AbortController)();
};
const globalThis = {
  // Without arguments it is only tried out.
  DOMException: function DOMException(message, name) {
    return arguments.length === 0 ? {} : new (bundle('events').DOMException)(message, name);
  },
};
`;

export function adaptStreams(text) {
  const kept = new Set([...text.matchAll(internal)].map(([, name]) => name));
  const names = [...new Set([...text.matchAll(member)].map(([, name]) => name))].filter((name) => !kept.has(name));
  for (const needed of ['state', 'disturbed', 'readableStreamController']) {
    if (!names.includes(needed)) throw new Error(`web-streams-polyfill has no member _${needed} any more.`);
  }
  const symbols = names.map((name) => `$${name} = Symbol(${JSON.stringify(name)})`);
  const adapted = text
    .replace(member, (found, name) => (kept.has(name) ? found : `[$${name}]`))
    .replace(/"_([a-zA-Z]\w*)"/g, (found, name) => (names.includes(name) ? `$${name}` : found));
  return `${surroundings}const ${symbols.join(', ')};\n${adapted}\nexport { $disturbed, $state };`;
}
