import { arch, cpus, platform, release, totalmem } from 'node:os';
import { packageVersion } from '../../src/paths.ts';
import { memoryBound } from '../../src/sandbox/memory-bound.ts';
import type { HonestUse } from './honest.ts';
import { type Row, rules } from './rows.ts';
import { ampleCpuLimits, type Kind, memoryMbOf, shortCpuLimits } from './target.ts';

const MiB = 1024 * 1024;

export interface HonestRow {
  use: HonestUse;
  answer: string;
  right: boolean;
  /** As jobcell itself measured it. */
  peakBytes: number | null;
}

export const mb = (bytes: number | null) => (bytes === null ? '' : String(Math.round(bytes / MiB)));
const ms = (value: number | null) => (value === null ? '' : String(Math.round(value)));

/** The figure that the error names, or else the measured one, MB. */
const usedOf = ({ outcome }: Row) =>
  /used (\d+) MB/.exec(outcome.message)?.[1] ?? mb(outcome.usage?.peakMemoryBytes ?? null);

const outcomeOf = ({ outcome }: Row) => outcome.code ?? 'returned';

export function lineOf(row: Row): string {
  const { attack, kind, beside, measured, stopMs, violations } = row;
  const verdict = violations.length === 0 ? 'ok  ' : 'FAIL';
  const figures = `used ${usedOf(row)} MB, peak ${mb(measured.peakBytes)} MB, over ${ms(measured.overBoundMs)} ms, stop ${ms(stopMs)} ms, server +${mb(measured.serverGrownBytes)} to ${mb(measured.serverBytes)} MB`;
  const line = `${verdict} ${attack} @${memoryMbOf(kind)} +${beside}: ${outcomeOf(row)}, ${figures}`;
  return [line, ...violations.map((violation) => `       ${violation}`)].join('\n');
}

/** docs/conformance.md. */
export function page(rows: Row[], honest: HonestRow[], startedAt: Date): string {
  const failed = rows.filter(({ violations }) => violations.length > 0);
  const badHonest = honest.filter(({ right }) => !right);
  const { node, v8 } = process.versions;
  const [cpu] = cpus();
  return `# Conformance

Written by \`npm run conformance\`; every line is a real run on a real server over HTTP. What is promised, and what the
boundaries are: [security.md](security.md).

- ${startedAt.toISOString().slice(0, 16).replace('T', ' ')} UTC, jobcell ${packageVersion()}, Node ${node}, V8 ${v8}, isolated-vm 7.0.1
- ${platform()} ${release()} ${arch()}, ${cpus().length} x ${cpu?.model.trim() ?? 'unknown'}, ${Math.round(totalmem() / MiB / 1024)} GB of memory
- scripts that may meet their CPU limit ran with ${shortCpuLimits.function / 1000} s (function) and ${shortCpuLimits['job function'] / 1000} s (job function), so that the suite ends; all others with ${ampleCpuLimits.function / 1000} s and ${ampleCpuLimits['job function'] / 1000} s, so that memory decides on a busy machine, too

**${rows.length} attacks, ${failed.length} not contained. ${honest.length} honest uses, ${badHonest.length} not let through.**

${worst(rows)}

A row is *contained* when all of this holds:

- the script ended as it may: what means to exceed its memory with exactly \`Memory limit exceeded: used N MB of L MB limit\`, N over L
- it was answered within ${rules.stopMs / 1000} s after it passed its memory bound or its CPU limit (a busy machine included)
- no cell was over its bound (limit x 2 + 64 MB over what it held at the start) for ${rules.overBoundMs} ms without a break
- the server process lives, is ready, and grew by at most ${rules.serverGrowthMb} MB
- every clean run beside it succeeded with the right result

*Used* is the figure of the error, or jobcell's own measure where there is none; *peak* is what the kernel says a cell
grew by at most (high-water mark), *over* how long it was over its bound, *stop* the time from passing a limit to the
answer, *server* what the server process grew by. Memory in MB, time in ms. *Beside*: clean runs at the same time.

## Attacks

| script | limit | beside | outcome | used | peak | over | stop | server | verdict |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
${rows.map(tableRow).join('\n')}

## Honest use

What stays within its limit has to succeed.

| use | limit | used | answer | verdict |
| --- | --- | --- | --- | --- |
${honest.map(honestRow).join('\n')}
`;
}

function tableRow(row: Row): string {
  const { attack, kind, beside, measured, stopMs, violations } = row;
  const verdict = violations.length === 0 ? 'contained' : `**not as it has to be**: ${violations.join('; ')}`;
  const cells = [
    attack,
    memoryMbOf(kind),
    beside,
    outcomeOf(row),
    usedOf(row),
    mb(measured.peakBytes),
    ms(measured.overBoundMs),
    ms(stopMs),
    mb(measured.serverGrownBytes),
    verdict.replaceAll('|', '\\|').replaceAll('\n', ' '),
  ];
  return `| ${cells.join(' | ')} |`;
}

function honestRow({ use, answer, right, peakBytes }: HonestRow): string {
  const verdict = right ? 'succeeds' : `**fails**: ${answer.replaceAll('|', '\\|')}`;
  return `| ${use.name} | ${memoryMbOf(use.kind)} | ${mb(peakBytes)} | ${right ? answer : ''} | ${verdict} |`;
}

/** The worst figures of each limit, which security.md speaks of. */
function worst(rows: Row[]): string {
  const lines = (['function', 'job function'] as Kind[]).flatMap((kind) => {
    const own = rows.filter((row) => row.kind === kind);
    const top = own.toSorted((a, b) => b.measured.peakBytes - a.measured.peakBytes)[0];
    const longest = own.toSorted((a, b) => b.measured.overBoundMs - a.measured.overBoundMs)[0];
    if (top === undefined || longest === undefined) return [];
    const limit = memoryMbOf(kind);
    return `| ${limit} MB | ${mb(memoryBound(limit))} MB | ${mb(top.measured.peakBytes)} MB (${top.attack}) | ${ms(longest.measured.overBoundMs)} ms (${longest.attack}) |`;
  });
  const server = Math.max(...rows.map(({ measured }) => measured.serverBytes));
  return `| limit | bound | worst peak of a cell | longest over the bound |
| --- | --- | --- | --- |
${lines.join('\n')}

The server process held at most ${mb(server)} MB at any time.`;
}
