import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/paths.ts';
import type { Area } from './areas.ts';
import { reasons } from './expectations.ts';
import type { Outcome } from './suite.ts';

export interface AreaScore {
  area: Area;
  files: number;
  /** Subtests that a cell, Node or either of them came to, and those that passed. */
  all: number;
  passed: number;
  nodePassed: number;
  bothPassed: number;
  skipped: { path: string; why: string }[];
  /** Known failures by their reasons. */
  known: Map<string, number>;
}

export function emptyScore(area: Area): AreaScore {
  return { area, files: 0, all: 0, passed: 0, nodePassed: 0, bothPassed: 0, skipped: [], known: new Map() };
}

/** Adds one run of a file. A subtest that one side never came to has failed there. */
export function addFile(score: AreaScore, ours: Outcome[], node: Outcome[]): void {
  const names = new Set([...ours, ...node].map(({ name }) => name).filter((name) => !name.startsWith('(')));
  const passedIn = (outcomes: Outcome[]) => new Set(outcomes.filter(({ passed }) => passed).map(({ name }) => name));
  const here = passedIn(ours);
  const there = passedIn(node);
  score.files++;
  score.all += names.size;
  score.passed += here.size;
  score.nodePassed += there.size;
  score.bothPassed += [...there].filter((name) => here.has(name)).length;
}

const shareOf = ({ area, all, passed, nodePassed, bothPassed }: AreaScore) =>
  area.bar.of === 'all' ? passed / Math.max(1, all) : bothPassed / Math.max(1, nodePassed);

export const meetsBar = (score: AreaScore) => shareOf(score) >= score.area.bar.share;

const percent = (share: number) => `${(Math.floor(share * 1_000) / 10).toFixed(1)} %`;
const barText = ({ bar }: Area) => `${bar.share * 100} % ${bar.of === 'all' ? 'of all' : 'of what Node passes'}`;

export function scoreLine(score: AreaScore): string {
  const { area, files, all, passed, nodePassed, bothPassed, skipped } = score;
  return (
    `${area.name}: ${passed} of ${all} subtests pass in ${files} files, ${nodePassed} in Node, ${bothPassed} in both; ` +
    `${percent(shareOf(score))}, bar ${barText(area)}${meetsBar(score) ? '' : ' MISSED'}; ${skipped.length} files not run`
  );
}

const begin = '<!-- scores: written by npm run wpt -->';
const end = '<!-- end of scores -->';

/** Replaces the table in docs/globals.md. */
export function writeScores(scores: AreaScore[]): void {
  const page = join(packageRoot, 'docs', 'globals.md');
  const text = readFileSync(page, 'utf8');
  const rows = scores.map((score) => {
    const { area, files, all, passed, nodePassed, bothPassed } = score;
    return [area.name, files, all, passed, nodePassed, bothPassed, percent(shareOf(score)), barText(area)];
  });
  const head = ['area', 'files', 'subtests', 'pass here', 'pass in Node 26', 'pass in both', 'score', 'bar'];
  const table = [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
  const counts = new Map<string, number>();
  for (const { known } of scores) for (const [key, count] of known) counts.set(key, (counts.get(key) ?? 0) + count);
  const why = [...counts].sort(([, a], [, b]) => b - a).map(([key, count]) => `| ${count} | ${reasons[key]} |`);
  const at = text.indexOf(begin);
  const to = text.indexOf(end);
  if (at === -1 || to === -1) throw new Error('docs/globals.md has no place for the scores.');
  const explained = ['| subtests that fail | why |', '| --- | --- |', ...why].join('\n');
  writeFileSync(page, `${text.slice(0, at + begin.length)}\n\n${table}\n\n${explained}\n\n${text.slice(to)}`);
}
