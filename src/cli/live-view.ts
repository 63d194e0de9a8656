import type { Execution, JournalRecord, Run } from './api-client.ts';
import { elapsed, type TreeLine, treeLines } from './step-tree.ts';
import { cut, duration, padEnd, padStart, paint, width } from './terminal.ts';

/** Shows executions and their steps while they run. */
export interface LiveView {
  /** What is known now; called again and again. */
  update(runs: Run[]): void;
  end(): void;
}

/** Rows a terminal must have for the tree to be drawn in place: what scrolled away cannot be drawn over. */
const rowsForDrawing = 30;

export function createLiveView(): LiveView {
  const draws = process.stdout.isTTY && (process.stdout.rows ?? 0) >= rowsForDrawing;
  return draws ? drawingView() : printingView();
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

export function statusMark(status: JournalRecord['status']): string {
  switch (status) {
    case 'SUCCESS':
      return paint('green', '✓');
    case 'FAILED':
    case 'CANCELED':
      return paint('red', '✗');
    case 'RUNNING':
      return paint('cyan', frames[Math.floor(performance.now() / 80) % frames.length]!);
    default:
      return paint('yellow', '…');
  }
}

/** Draws the whole tree again in the same place. */
function drawingView(): LiveView {
  let drawn = 0;
  let latest: Run[] = [];
  const draw = () => {
    const lines = latest.flatMap((run) => [heading(run.execution), ...treeLines(run).map(treeLine), '']);
    const up = drawn === 0 ? '' : `\x1b[${drawn}A`;
    // One write: a half-drawn tree never shows.
    process.stdout.write(`${up}${lines.map((line) => `\x1b[2K${line}\n`).join('')}`);
    drawn = lines.length;
  };
  const timer = setInterval(draw, 80);
  process.stdout.write('\x1b[?25l');
  return {
    update: (runs) => {
      latest = runs;
      draw();
    },
    end: () => {
      clearInterval(timer);
      process.stdout.write('\x1b[?25h');
    },
  };
}

const heading = ({ workflow, parent }: Execution) =>
  `  ${paint('bold', workflow)}${parent === null ? '' : paint('dim', '  started by the order, runs beside it')}`;

function treeLine({ record, branch }: TreeLine): string {
  const time = padStart(duration(elapsed(record)), 8);
  const room = width() - 24;
  const name = `${paint('dim', branch)}${statusMark(record.status)} ${title(record)}`;
  const note = record.error === null ? noteOf(record.args) : record.error.message;
  const space = room - branch.length - title(record).length - 6;
  const painted = paint(record.error === null ? 'dim' : 'red', cut(note, space));
  return `  ${padEnd(`${name}  ${painted}`, room)}${paint('dim', time)}`;
}

/** The name of what was called. */
export const title = ({ kind, name }: JournalRecord): string => (kind === 'startWorkflow' ? `start ${name}` : name);

/** The arguments, short: what tells the calls of one loop apart. */
function noteOf(args: unknown): string {
  if (typeof args !== 'object' || args === null) return '';
  return Object.values(args)
    .filter((value) => typeof value === 'string' || typeof value === 'number')
    .join(' ');
}

/** For pipes and small terminals: one line when a step starts and one when it ends. */
function printingView(): LiveView {
  const shown = new Map<string, 'heading' | 'started' | 'ended'>();
  return {
    update: (runs) => {
      for (const run of runs) {
        const lines = shown.has(run.execution.id) ? [] : [heading(run.execution)];
        shown.set(run.execution.id, 'heading');
        for (const line of [...lines, ...newEvents(run, shown)]) process.stdout.write(`${line}\n`);
      }
    },
    end: () => process.stdout.write('\n'),
  };
}

/** What began and ended since the last look, in the order in which it happened. */
function newEvents(run: Run, shown: Map<string, string>): string[] {
  const events: { at: string; order: number; line: string }[] = [];
  for (const [index, { record, depth }] of treeLines(run).entries()) {
    const key = `${run.execution.id} ${record.path}`;
    const indent = '  '.repeat(depth + 1);
    if (!shown.has(key)) {
      shown.set(key, 'started');
      const line = `${indent}${paint('dim', '▸')} ${title(record)}  ${paint('dim', cut(noteOf(record.args), 40))}`;
      events.push({ at: record.startedAt, order: index, line: line.trimEnd() });
    }
    if (record.finishedAt !== null && shown.get(key) === 'started') {
      shown.set(key, 'ended');
      const time = paint('dim', duration(elapsed(record)));
      const end = record.error === null ? '' : paint('red', `  ${cut(record.error.message, 60)}`);
      const line = `${indent}${statusMark(record.status)} ${title(record)}  ${time}${end}`;
      // Of what ended in the same millisecond, the innermost ended first.
      events.push({ at: record.finishedAt, order: 1_000_000 - depth, line });
    }
  }
  return events.sort((a, b) => a.at.localeCompare(b.at) || a.order - b.order).map(({ line }) => line);
}
