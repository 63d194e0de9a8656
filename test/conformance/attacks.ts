import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { packageRoot } from '../../src/paths.ts';

/** How a script may end; `error` is an error of the script's own, or a refusal by one of our globals. */
export type Ending = 'memory' | 'cpu' | 'returned' | 'error' | 'too-large';

export interface Attack {
  /** Name of its file, without the extension. */
  name: string;
  source: string;
  /** What it does: the comment in its first line. */
  purpose: string;
  /** Endings that are right; memory stands alone wherever the script means to exceed it. */
  expected: readonly Ending[];
}

/**
 * What does not mean to exceed its memory, and nothing else. Where several endings are right, it depends on the limit,
 * or on the speed of the machine, which of them comes first.
 */
const others: Record<string, readonly Ending[]> = {
  '02': ['memory', 'error'],
  '06': ['memory', 'cpu', 'returned'],
  '10': ['error'],
  '15': ['cpu'],
  '17': ['memory', 'cpu', 'returned'],
  '18': ['memory', 'cpu', 'error'],
  '19': ['returned'],
  '23': ['memory', 'cpu'],
  '25': ['memory', 'cpu'],
  '28': ['memory', 'too-large'],
  '30': ['memory', 'too-large'],
  '33': ['error'],
  '34': ['cpu', 'memory'],
  '37': ['cpu'],
  '38': ['cpu'],
  '40': ['cpu'],
  '50': ['returned'],
  '53': ['memory', 'cpu', 'error', 'too-large'],
  '54': ['memory', 'cpu', 'error', 'too-large'],
  '55': ['memory', 'error'],
  '56': ['error'],
  '58': ['cpu'],
  '61': ['memory', 'cpu'],
  '63': ['cpu'],
  '65': ['error'],
  '66': ['cpu'],
  '67': ['memory', 'error', 'too-large'],
  '68': ['returned', 'memory', 'cpu'],
  '69': ['returned', 'memory', 'cpu'],
  '70': ['returned', 'memory', 'cpu'],
  '71': ['error'],
  '72': ['returned', 'memory', 'cpu'],
  '73': ['returned', 'memory'],
  '77': ['cpu', 'memory'],
  '78': ['cpu'],
  '80': ['returned'],
  '81': ['returned'],
  '82': ['memory', 'cpu'],
  '83': ['cpu'],
  '84': ['memory', 'cpu'],
  '85': ['returned', 'cpu'],
  '86': ['returned'],
  '87': ['memory', 'cpu', 'error'],
  '88': ['memory', 'cpu'],
  '90': ['memory', 'cpu'],
  '91': ['memory', 'cpu'],
  '93': ['returned', 'error'],
  '94': ['cpu', 'memory'],
  '96': ['cpu'],
  '97': ['returned', 'cpu'],
  '99': ['memory', 'cpu'],
  '100': ['returned', 'error'],
  '101': ['returned', 'memory', 'cpu'],
  '103': ['memory', 'cpu'],
  '104': ['cpu'],
  '105': ['returned', 'memory', 'cpu'],
  '106': ['memory', 'cpu'],
  '107': ['memory', 'cpu'],
  '120': ['returned', 'memory'],
  '122': ['memory', 'cpu'],
  '123': ['returned', 'memory', 'error'],
  '124': ['returned', 'memory', 'cpu', 'error'],
  '125': ['returned', 'error'],
};

export const byNumber = (a: string, b: string) => a.localeCompare(b, 'en', { numeric: true });

/** Every script of both folders, by number. */
export function loadAttacks(): Attack[] {
  const files = globSync('test/fixtures/{attacks,attacks-more}/*.js', { cwd: packageRoot });
  return files
    .map((file) => {
      const source = readFileSync(join(packageRoot, file), 'utf8');
      const name = basename(file, '.js');
      const [first = ''] = source.split('\n', 1);
      return {
        name,
        source,
        purpose: first.replace(/^\/\/ */, ''),
        expected: others[name.split('-', 1)[0]!] ?? ['memory'],
      };
    })
    .sort((a, b) => byNumber(a.name, b.name)) satisfies Attack[];
}
