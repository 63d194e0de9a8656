import type { Execution, JobExecution } from './api-client.ts';
import { elapsed, type TreeLine, treeLines } from './step-tree.ts';
import { cut, duration, padEnd, padStart, paint, width } from './terminal.ts';

/** Shows executions while they run. */
export interface LiveView {
  /** What is known now; called again and again. */
  update(executions: Execution[]): void;
  end(): void;
}

/** Rows a terminal must have for the tree to be drawn in place: what scrolled away cannot be drawn over. */
const rowsForDrawing = 30;

export function createLiveView(): LiveView {
  const draws = process.stdout.isTTY && (process.stdout.rows ?? 0) >= rowsForDrawing;
  return draws ? drawingView() : printingView();
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

export function statusMark(status: JobExecution['status']): string {
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
  let latest: Execution[] = [];
  const draw = () => {
    const lines = latest.flatMap((execution) => [heading(execution), ...treeLines(execution).map(treeLine), '']);
    const up = drawn === 0 ? '' : `\x1b[${drawn}A`;
    // One write: a half-drawn tree never shows.
    process.stdout.write(`${up}${lines.map((line) => `\x1b[2K${line}\n`).join('')}`);
    drawn = lines.length;
  };
  const timer = setInterval(draw, 80);
  process.stdout.write('\x1b[?25l');
  return {
    update: (executions) => {
      latest = executions;
      draw();
    },
    end: () => {
      clearInterval(timer);
      process.stdout.write('\x1b[?25h');
    },
  };
}

const heading = (execution: Execution) =>
  `  ${paint('bold', execution.workflow)}${execution.parent === null ? '' : paint('dim', '  started by the order, runs beside it')}`;

function treeLine({ step, branch }: TreeLine): string {
  const time = padStart(duration(elapsed(step)), 8);
  const room = width() - 24;
  const name = `${paint('dim', branch)}${statusMark(step.status)} ${step.name}`;
  const note = step.error === null ? noteOf(step.args) : step.error.message;
  const space = room - branch.length - step.name.length - 5;
  const painted = paint(step.error === null ? 'dim' : 'red', cut(note, space));
  return `  ${padEnd(`${name}  ${painted}`, room)}${paint('dim', time)}`;
}

/** The arguments, short: what tells the calls of one loop apart. */
function noteOf(args: unknown): string {
  if (typeof args !== 'object' || args === null) return '';
  return Object.values(args)
    .filter((value) => typeof value === 'string' || typeof value === 'number')
    .join(' ');
}

/** For pipes and small terminals: one line when a step starts and one when it ends. */
function printingView(): LiveView {
  const shown = new Map<string, string>();
  const print = (line: string) => process.stdout.write(`${line}\n`);
  return {
    update: (executions) => {
      for (const execution of executions) {
        if (!shown.has(execution.id)) print(heading(execution));
        shown.set(execution.id, 'heading');
        for (const line of eventsOf(execution, shown)) print(line);
      }
    },
    end: () => print(''),
  };
}

/** Starts in the order of the calls, ends innermost first, as they happened. */
function eventsOf(execution: Execution, shown: Map<string, string>): string[] {
  const events: { at: string; order: number; line: string }[] = [];
  for (const [index, { step, depth, key }] of treeLines(execution).entries()) {
    const indent = '  '.repeat(depth + 1);
    if (!shown.has(key)) {
      const note = paint('dim', cut(noteOf(step.args), 40));
      events.push({
        at: step.startedAt,
        order: index,
        line: `${indent}${paint('dim', '▸')} ${step.name}  ${note}`.trimEnd(),
      });
      shown.set(key, 'started');
    }
    if (step.finishedAt !== null && shown.get(key) === 'started') {
      const end = step.error === null ? '' : paint('red', `  ${cut(step.error.message, 60)}`);
      const line = `${indent}${statusMark(step.status)} ${step.name}  ${paint('dim', duration(elapsed(step)))}${end}`;
      events.push({ at: step.finishedAt, order: 10_000 - depth * 100 + index, line });
      shown.set(key, 'ended');
    }
  }
  return events.sort((a, b) => a.at.localeCompare(b.at) || a.order - b.order).map(({ line }) => line);
}
