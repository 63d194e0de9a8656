import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import { Client, type Workspace } from '../support/client.ts';
import { replayModes } from '../support/fixtures.ts';
import { startServer } from '../support/server.ts';

/** Death is an answer (D23, sandbox.md 7): what an attack in a job function means to the run it is part of. */

const attack = (name: string) => readFileSync(join(packageRoot, 'test', 'fixtures', `${name}.js`), 'utf8');

const attacks = {
  // The isolate ends by V8's own limit; the cell lives.
  heap: attack('attacks/05-arraybuffer-1mb-loop'),
  // The whole cell is killed over its bound.
  resizable: attack('attacks/09-growable-sab-resizable-ab'),
  // V8 gives up.
  'huge-split': attack('attacks/45-large-object-one-shot-2gb'),
};
const endlessLoop = attack('attacks/38-catch-terminate-loop');
const memoryError = /^Memory limit exceeded: used (\d+) MB of 256 MB limit$/;

const parents = {
  sibling: `export function main({ n }) { return { n, at: Math.random() }; }`,
  catches: `export function main({ attack }) {
    const before = tailor.workflow.execJobFunction('sibling', { n: 1 });
    let caught;
    try { tailor.workflow.execJobFunction(attack); } catch (e) { caught = { name: e.name, code: e.code, message: e.message, isError: e instanceof Error }; }
    const after = tailor.workflow.execJobFunction('sibling', { n: 2 });
    return { before, caught, after };
  }`,
  'lets-through': `export function main({ attack }) {
    tailor.workflow.execJobFunction('sibling', { n: 1 });
    return tailor.workflow.execJobFunction('between', { attack });
  }`,
  between: `export function main({ attack }) { return tailor.workflow.execJobFunction(attack); }`,
};

let workspace: Workspace;
/** Of a server whose job functions may compute for a second. */
let hurried: Workspace;

beforeAll(async () => {
  const prepare = async (env: Record<string, string>) => {
    const prepared = await new Client(await startServer({ env })).createWorkspace();
    await prepared.uploadJobFunctions({ ...parents, ...attacks, 'endless-loop': endlessLoop });
    await prepared.putWorkflow('catches', 'catches');
    await prepared.putWorkflow('lets-through', 'lets-through');
    return prepared;
  };
  [workspace, hurried] = await Promise.all([prepare({}), prepare({ JOBCELL_JOB_FUNCTION_CPU_MS: '1000' })]);
});

/** @returns the message that the parent caught. */
async function caughtBy(where: Workspace, name: string, code: string, replay: string): Promise<string> {
  const execution = await where.run('catches', { attack: name }, { replay });
  expect(execution).toMatchObject({ status: 'SUCCESS', error: null });
  const result = execution.result as { before: unknown; after: unknown; caught: { message: string } };
  const { message } = result.caught;
  expect(result.caught).toEqual({ name: 'Error', code, message, isError: true });

  const [first, failed, second] = ['0:sibling', `1:${name}`, '2:sibling'].map((step) =>
    execution.jobExecutions.find(({ path }) => path === `catches/${step}`),
  );
  // The siblings' results are the recorded ones: neither ran a second time for the other one's death.
  expect(first).toMatchObject({ status: 'SUCCESS', runs: 1, result: result.before });
  expect(second).toMatchObject({ status: 'SUCCESS', runs: 1, result: result.after });
  expect(failed).toMatchObject({
    status: 'FAILED',
    runs: 1,
    error: { code, message, kind: 'USER_NON_RUNTIME', at: `catches/${name}` },
    usage: { memoryLimitBytes: 256 * 1024 * 1024 },
  });
  return message;
}

describe.each(replayModes)('replay %s', (replay) => {
  test.each(Object.keys(attacks))('a parent catches the end of a child: %s', async (name) => {
    const message = await caughtBy(workspace, name, 'MEMORY_LIMIT_EXCEEDED', replay);
    expect(message).toMatch(memoryError);
    expect(Number(memoryError.exec(message)?.[1])).toBeGreaterThan(256);
  });

  test('a parent catches the end of a child: endless-loop', async () => {
    expect(await caughtBy(hurried, 'endless-loop', 'CPU_LIMIT_EXCEEDED', replay)).toMatch(
      /^CPU limit exceeded: used \d+ ms of 1000 ms limit$/,
    );
  });

  test('uncaught, it fails every body above it, and the execution names the step', async () => {
    const execution = await workspace.run('lets-through', { attack: 'resizable' }, { replay });
    expect(execution).toMatchObject({
      status: 'FAILED',
      error: {
        code: 'MEMORY_LIMIT_EXCEEDED',
        kind: 'USER_NON_RUNTIME',
        at: 'lets-through/between/resizable',
        message: expect.stringMatching(memoryError),
      },
    });
    const statuses = execution.jobExecutions.map(({ path, status }) => [path, status]);
    expect(Object.fromEntries(statuses)).toEqual({
      'lets-through': 'FAILED',
      'lets-through/0:sibling': 'SUCCESS',
      'lets-through/1:between': 'FAILED',
      'lets-through/1:between/0:resizable': 'FAILED',
    });
  });
});
