/**
 * `npm run wpt -- --suite DIR [AREA ...]`: runs the web platform's own tests in real cells, and in Node beside them, and
 * compares with expectations.json. Ends with exit code 1 when a subtest fails without a reason, a known failure passes,
 * or an area is below its bar. Without areas all are run, and docs/globals.md gets the scores.
 *
 * The suite is not part of this repository; DIR is a checkout of web-platform-tests, or a part of one.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { addressRules } from '../../src/globals/addresses.ts';
import { createFetchBroker } from '../../src/globals/fetch-broker.ts';
import { fetchOperations } from '../../src/globals/fetch-operations.ts';
import { createHostOperations } from '../../src/globals/host-operations.ts';
import { startSandbox } from '../sandbox/harness.ts';
import { type Area, areas } from './areas.ts';
import { knownFailure, outdated, skipped } from './expectations.ts';
import { runInCell } from './in-cell.ts';
import { runInNode } from './in-node.ts';
import { type AreaScore, addFile, emptyScore, meetsBar, scoreLine, writeScores } from './scores.ts';
import { serveSuite } from './serve-suite.ts';
import { scriptOf, type TestFile, testsIn } from './suite.ts';

const atOnce = 2;
const areaNames = areas.map(({ name }) => name).join(', ');

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    suite: { type: 'string' },
    file: { type: 'string' },
    failures: { type: 'string' },
    quiet: { type: 'boolean' },
  },
});
const { suite = '', file: chosenFile, failures: failuresFile, quiet } = values;
if (!existsSync(join(suite, 'resources', 'testharness.js'))) {
  const wrong = `${suite} has no resources/testharness.js, so it is no checkout of web-platform-tests.`;
  console.error(suite === '' ? 'The option --suite is missing.' : wrong);
  console.error('usage: npm run wpt -- --suite DIR [--file PART-OF-A-PATH] [--failures FILE] [--quiet] [AREA ...]');
  console.error(`Areas: ${areaNames}`);
  process.exit(1);
}
const chosen = areas.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const unknown = positionals.filter((name) => !areas.some((area) => area.name === name));
if (unknown.length > 0) {
  console.error(`There is no area ${unknown.join(', ')}. There are ${areaNames}.`);
  process.exit(1);
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));

const server = await serveSuite(suite);
const sandbox = await startSandbox({ cells: atOnce, prewarmed: atOnce });
const broker = createFetchBroker({ rules: addressRules('127.0.0.1') });
const host = createHostOperations([() => fetchOperations(broker)], pino({ level: 'warn' }, pino.destination(2)));
let unexpected = 0;
/** Every subtest that failed, for who writes expectations. */
const failures: { path: string; name: string; message: string | null; inNode: boolean }[] = [];
const scores: AreaScore[] = [];
try {
  for (const area of chosen) {
    const score = await runArea(area);
    scores.push(score);
    console.log(scoreLine(score));
  }
} finally {
  await sandbox.stop();
  await server.stop();
}
const below = scores.filter((score) => !meetsBar(score));
if (positionals.length === 0 && chosenFile === undefined) writeScores(scores);
if (failuresFile !== undefined) writeFileSync(failuresFile, JSON.stringify(failures, null, 1));
console.log(`${unexpected} subtests are not as expected; ${below.length} areas are below their bars.`);
process.exitCode = unexpected === 0 && below.length === 0 ? 0 : 1;

async function runArea(area: Area): Promise<AreaScore> {
  const score = emptyScore(area);
  const files = testsIn(suite, area.folders).filter(
    ({ path }) => chosenFile === undefined || path.includes(chosenFile),
  );
  let next = 0;
  const work = async () => {
    for (let test = files[next++]; test !== undefined; test = files[next++]) await runFile(test, score);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return score;
}

async function runFile(test: TestFile, score: AreaScore): Promise<void> {
  const { path, variant } = test;
  const why = skipped(path);
  if (why !== undefined) {
    score.skipped.push({ path, why });
    return;
  }
  const script = scriptOf(suite, test, server.origin);
  const [ours, node] = await Promise.all([runInCell(sandbox, host, script), runInNode(script)]);
  addFile(score, ours, node);
  for (const { name, passed, message } of ours) {
    if (passed) continue;
    const inNode = node.find((each) => each.name === name)?.passed ?? false;
    failures.push({ path, name, message, inNode });
    const known = knownFailure(path, name);
    if (known !== undefined) {
      score.known.set(known, (score.known.get(known) ?? 0) + 1);
      continue;
    }
    unexpected++;
    if (!quiet)
      console.log(
        `FAIL ${path}${variant} | ${name}${inNode ? '' : ' (in Node too)'}\n     ${message?.replaceAll('\n', '\n     ')}`,
      );
  }
  for (const name of variant === '' ? outdated(path, ours) : []) {
    unexpected++;
    console.log(`A known failure is none any more: ${path} | ${name}`);
  }
}
