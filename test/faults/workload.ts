import type { Client, Workspace } from '../support/client.ts';

export interface Size {
  executions: number;
  steps: number;
  workspaces: number;
  /** How long each body takes, ms. */
  pauseMs: number;
}

/** Steps of one key, in one workspace, that may run at once; executions share the keys of their workspace. */
export const keyCap = 2;
const keysPerWorkspace = 3;
/** The key of an execution's steps, and what tells its pool from those of other workspaces. */
export const poolOf = (execution: number, { workspaces }: Size) => {
  const key = `step.${Math.floor(execution / workspaces) % keysPerWorkspace}`;
  return { key, pool: `${execution % workspaces} ${key}` };
};

/** Each step begins, goes on and ends in view of the counter server, and logs a line. */
const step = `
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  export async function main({ url, execution, step, pauseMs }) {
    const body = crypto.randomUUID();
    const own = 'execution=' + execution + '&step=' + step + '&body=' + body;
    const note = (kind) => fetch(url + '/?' + own + '&kind=' + kind + '&at=' + Date.now());
    console.log('inside ' + step);
    await note('begin');
    await sleep(pauseMs / 2);
    await note('beat');
    await sleep(pauseMs / 2);
    await note('end');
    return execution * 1000 + step;
  }`;

const main = `
  export async function main({ url, execution, key, steps, pauseMs }) {
    let sum = 0;
    let started;
    for (let step = 0; step < steps; step++) {
      console.log('before ' + step);
      sum += tailor.workflow.execJobFunction('step', { url, execution, step, pauseMs }, { executionPolicyKey: key });
      if (step === execution % steps) started = await tailor.workflow.startWorkflow('started', { execution });
    }
    return { sum, started };
  }`;

const started = 'export const main = ({ execution }) => execution;';

export const resultOf = (execution: number, steps: number) => execution * 1000 * steps + (steps * (steps - 1)) / 2;

/** Uploads the scripts and starts all executions; answers the id of each, by its number. */
export async function startWorkload(client: Client, counterUrl: string, size: Size): Promise<string[]> {
  const workspaces: Workspace[] = [];
  for (let number = 0; number < size.workspaces; number++) {
    const workspace = await client.createWorkspace();
    await workspace.uploadJobFunctions({ main, step, started });
    await workspace.putWorkflow('steps', 'main');
    await workspace.putWorkflow('started', 'started');
    await workspace.capKey('step', keyCap, 'prefix');
    workspaces.push(workspace);
  }
  const { steps, pauseMs } = size;
  const ids: string[] = [];
  const startAtOnce = 16;
  for (let first = 0; first < size.executions; first += startAtOnce) {
    const group = Array.from({ length: Math.min(startAtOnce, size.executions - first) }, (_, index) => first + index);
    const startOne = (execution: number) =>
      workspaces[execution % workspaces.length]!.start('steps', {
        url: counterUrl,
        execution,
        key: poolOf(execution, size).key,
        steps,
        pauseMs,
      });
    ids.push(...(await Promise.all(group.map(startOne))));
  }
  return ids;
}
