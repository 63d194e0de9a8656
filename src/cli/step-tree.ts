import type { Execution, JobExecution } from './api-client.ts';

/** One line of a run's tree, in the order of the calls. */
export interface TreeLine {
  step: JobExecution;
  /** Lines that lead to it: `│  ├─ `. */
  branch: string;
  depth: number;
  /** Key over all executions of a view. */
  key: string;
}

/** The steps of an execution as a tree. A path is `main-job/0:fetchData/2:parse`: position and name of each call. */
export function treeLines(execution: Execution): TreeLine[] {
  const children = new Map<string, JobExecution[]>();
  for (const step of execution.jobExecutions) {
    const parent = step.path.slice(0, Math.max(0, step.path.lastIndexOf('/')));
    children.set(parent, [...(children.get(parent) ?? []), step]);
  }
  const lines: TreeLine[] = [];
  const walk = (parent: string, indent: string, depth: number) => {
    const steps = (children.get(parent) ?? []).sort((a, b) => position(a.path) - position(b.path));
    for (const [index, step] of steps.entries()) {
      const last = index === steps.length - 1;
      const branch = depth === 0 ? '' : `${indent}${last ? '└─ ' : '├─ '}`;
      lines.push({ step, branch, depth, key: `${execution.id}/${step.path}` });
      walk(step.path, depth === 0 ? '' : `${indent}${last ? '   ' : '│  '}`, depth + 1);
    }
  };
  walk('', '', 0);
  return lines;
}

function position(path: string): number {
  const call = path.slice(path.lastIndexOf('/') + 1);
  return Number(/^(\d+):/.exec(call)?.[1] ?? 0);
}

/** Milliseconds from the step's start to its end, or to now. */
export function elapsed(step: Pick<JobExecution, 'startedAt' | 'finishedAt'>): number {
  const end = step.finishedAt === null ? Date.now() : Date.parse(step.finishedAt);
  return Math.max(0, end - Date.parse(step.startedAt));
}
