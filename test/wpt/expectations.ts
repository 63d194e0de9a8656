import { readFileSync } from 'node:fs';
import type { Outcome } from './suite.ts';

/** test/wpt/expectations.json: what is known to fail, or cannot be run, and why. */
interface Expectations {
  reasons: Record<string, string>;
  /** Files that are not run, by reason. */
  skip: Record<string, string[]>;
  /** By file and reason, the names of subtests; one that ends in `*` stands for all that begin so. */
  fail: Record<string, Record<string, string[]>>;
}

const all = JSON.parse(readFileSync(new URL('expectations.json', import.meta.url), 'utf8')) as Expectations;

for (const key of [...Object.keys(all.skip), ...Object.values(all.fail).flatMap(Object.keys)]) {
  if (all.reasons[key] === undefined) throw new Error(`test/wpt/expectations.json gives no reason ${key}.`);
}

export const reasons = all.reasons;

/** Why a file is not run. An entry that ends in `/` is a folder. */
export function skipped(path: string): string | undefined {
  return Object.entries(all.skip).find(([, paths]) =>
    paths.some((each) => (each.endsWith('/') ? path.startsWith(each) : each === path)),
  )?.[0];
}

/** Why a subtest is known to fail. */
export function knownFailure(path: string, name: string): string | undefined {
  return Object.entries(all.fail[path] ?? {}).find(([, names]) =>
    names.some((each) => (each.endsWith('*') ? name.startsWith(each.slice(0, -1)) : each === name)),
  )?.[0];
}

/** Known failures of a file of which no subtest fails any more. */
export function outdated(path: string, outcomes: Outcome[]): string[] {
  const failed = outcomes.filter(({ passed }) => !passed);
  const matches = (each: string) =>
    failed.some(({ name }) => (each.endsWith('*') ? name.startsWith(each.slice(0, -1)) : each === name));
  return Object.values(all.fail[path] ?? {})
    .flat()
    .filter((each) => !matches(each));
}
