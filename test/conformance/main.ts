/**
 * `npm run conformance`: every attack at both limits, alone and beside clean runs, on a real server; then honest uses.
 * Writes docs/conformance.md, and ends with exit code 1 when a row is not as it has to be. Words after the command
 * choose rows by the attack's name; then the page is not written.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/paths.ts';
import { type Attack, byNumber, loadAttacks } from './attacks.ts';
import { type HonestUse, honestUses } from './honest.ts';
import { startHostileWeb } from './hostile-web.ts';
import { launchServer } from './launch.ts';
import { type HonestRow, lineOf, mb, page } from './report.ts';
import { type Row, rules, runRow } from './rows.ts';
import { type Sampler, startSampler } from './sampler.ts';
import { ampleCpuLimits, type CpuLimits, type Kind, openTarget, shortCpuLimits, type Target } from './target.ts';

const chosen = process.argv.slice(2);
const matches = (name: string) => chosen.length === 0 || chosen.some((word) => name.includes(word));
const kinds: Kind[] = ['function', 'job function'];
const startedAt = new Date();
// The server ends with this process, and what it leaves behind is removed at its exit.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));

const web = await startHostileWeb();
const rows: Row[] = [];
const honest: HonestRow[] = [];
const attacks = loadAttacks().filter(({ name }) => matches(name));
const mayMeetCpu = ({ expected }: Attack) => expected.includes('cpu');

await withServer(ampleCpuLimits, async (target, sampler) => {
  for (const use of honestUses.filter(({ name }) => matches(name))) {
    const row = await runHonest(target, use);
    honest.push(row);
    console.log(`${row.right ? 'ok  ' : 'FAIL'} ${use.kind} ${use.name}: ${row.answer}, used ${mb(row.peakBytes)} MB`);
  }
  for (const attack of attacks) if (!mayMeetCpu(attack)) await runAttack(target, sampler, attack);
});
await withServer(shortCpuLimits, async (target, sampler) => {
  for (const attack of attacks) if (mayMeetCpu(attack)) await runAttack(target, sampler, attack);
});

web.stop();
const failed =
  rows.filter(({ violations }) => violations.length > 0).length + honest.filter((row) => !row.right).length;
if (chosen.length === 0) {
  rows.sort((a, b) => byNumber(a.attack, b.attack));
  writeFileSync(join(packageRoot, 'docs', 'conformance.md'), page(rows, honest, startedAt));
  console.log('docs/conformance.md is written.');
}
console.log(`${rows.length + honest.length} rows, ${failed} of them not as they have to be.`);
process.exitCode = failed === 0 ? 0 : 1;

async function withServer(cpu: CpuLimits, work: (target: Target, sampler: Sampler) => Promise<void>): Promise<void> {
  const server = await launchServer(cpu, web.url);
  try {
    const target = await openTarget(server, cpu);
    await target.furnish(web.url);
    // The server has grown to its usual size before it is measured.
    await target.cleanRuns(100);
    const sampler = await startSampler(server.pid);
    await work(target, sampler);
    await sampler.stop();
  } finally {
    await server.stop();
  }
}

async function runAttack(target: Target, sampler: Sampler, attack: Attack): Promise<void> {
  for (const kind of kinds) {
    for (const beside of [0, rules.cleanRuns]) {
      const row = await runRow(target, sampler, attack, kind, beside);
      rows.push(row);
      console.log(lineOf(row));
    }
  }
}

async function runHonest(target: Target, use: HonestUse): Promise<HonestRow> {
  const { code, message, result, usage } = await target.run(use.kind, use.name, use.source);
  const answer = code === null ? JSON.stringify(result) : `${code}: ${message}`;
  return { use, answer, right: code === null && answer === use.result, peakBytes: usage?.peakMemoryBytes ?? null };
}
