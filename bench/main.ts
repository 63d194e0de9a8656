/**
 * `npm run bench -- NAME [NAME ...] [--rounds N]`, or `all`: runs bench/NAME.ts on a fresh build, one after the other,
 * prints what they found and writes it to docs/benchmarks.md. `--short` only tries them out: a tenth of the work in one
 * round, and nothing is written.
 */
import { parseArgs } from 'node:util';
import { load, type Name, names } from './harness/benchmark.ts';
import { writeSection } from './harness/report.ts';

const usage = `usage: npm run bench -- NAME [NAME ...] [--rounds N] [--short]
NAME is all, or of: ${names.join(', ')}`;

function fail(message: string): never {
  console.error(`${message}\n${usage}`);
  process.exit(1);
}

function readArguments(): { wanted: Name[]; rounds: number; short: boolean } {
  const parsed = (() => {
    try {
      return parseArgs({
        allowPositionals: true,
        options: { rounds: { type: 'string', default: '5' }, short: { type: 'boolean', default: false } },
      });
    } catch (error) {
      return fail((error as Error).message);
    }
  })();
  const { positionals, values } = parsed;
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) fail(`--rounds takes a number from 1 on, not ${values.rounds}.`);
  const isName = (name: string): name is Name => names.includes(name as Name);
  const unknown = positionals.filter((name) => name !== 'all' && !isName(name));
  if (unknown.length > 0) fail(`There is no benchmark ${unknown.join(', ')}.`);
  if (positionals.length === 0) fail('Which benchmark?');
  const wanted = positionals.includes('all') ? [...names] : positionals.filter(isName);
  return { wanted, rounds: values.short ? 1 : rounds, short: values.short };
}

const { wanted, rounds, short } = readArguments();
for (const name of wanted) {
  const begun = performance.now();
  const { title, run } = await load(name);
  console.error(`bench ${name}: ${title}, ${rounds} rounds ...`);
  const lines = await run({ rounds, short });
  console.log(['', `## ${title}`, '', ...lines].join('\n'));
  console.error(`bench ${name}: ${((performance.now() - begun) / 1_000).toFixed(0)} s`);
  if (!short) writeSection(name, title, lines);
}
