/**
 * `npm run bench -- <name>` runs bench/<name>.ts on a fresh build. Each benchmark prints a table.
 */
import { readdirSync } from 'node:fs';

/** Not benchmarks themselves. */
const helpers = new Set(['main.ts', 'report.ts', 'policies-load.ts']);

const [name] = process.argv.slice(2);
const names = readdirSync(new URL('.', import.meta.url))
  .filter((entry) => entry.endsWith('.ts') && !helpers.has(entry))
  .map((entry) => entry.slice(0, -'.ts'.length));

if (name === undefined || !names.includes(name)) {
  console.error(`usage: npm run bench -- <name>, one of: ${names.join(', ')}`);
  process.exit(1);
}
await import(new URL(`./${name}.ts`, import.meta.url).href);
