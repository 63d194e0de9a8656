import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/limits.ts';
import type { Usage } from '../../src/sandbox/protocol.ts';
import { Client, type Workspace } from '../support/client.ts';

/** A server process that is put to the test. */
export interface TargetServer {
  readonly url: string;
  readonly adminToken: string;
  readonly pid: number;
}

/** CPU time a script may use, ms. */
export type CpuLimits = Record<Kind, number>;

/**
 * For scripts that mean to exceed their memory. A job function has the default; a function more than that, since V8 takes its time near
 * the limit and a busy machine can use its 10 s up.
 */
export const ampleCpuLimits: CpuLimits = { function: 30_000, 'job function': limits.jobFunctionCpuMs };
/** For scripts that loop for ever: the default would take most of the suite's time. */
export const shortCpuLimits: CpuLimits = { function: 3_000, 'job function': 6_000 };

export const environmentOf = (cpu: CpuLimits) => ({
  JOBCELL_FUNCTION_CPU_MS: String(cpu.function),
  JOBCELL_JOB_FUNCTION_CPU_MS: String(cpu['job function']),
});

/** A Function runs by `functions/test-run`, a job function as the main one of a workflow. */
export type Kind = 'function' | 'job function';

export const memoryMbOf = (kind: Kind) => (kind === 'function' ? limits.functionMemoryMb : limits.jobFunctionMemoryMb);

/** How a script ended, as the HTTP interface says it. */
export interface Outcome {
  /** Null when it returned. */
  code: string | null;
  message: string;
  result: unknown;
  usage: Usage | null;
}

export interface Target {
  readonly server: TargetServer;
  readonly cpu: CpuLimits;
  run(kind: Kind, name: string, source: string): Promise<Outcome>;
  /**
   * Gives the attacks what some of them are about: a namespace `attacks` with a table, a machine user of that name, and a vault
   * of that name with the URL of a server that they may fetch from, and a hundred secrets.
   */
  furnish(webUrl: string): Promise<void>;
  /** So many runs that do nothing wrong, a few at a time, in another workspace. @returns what was wrong with them. */
  cleanRuns(count: number): Promise<string[]>;
}

const helpers: Record<string, string> = {
  echo: 'export const main = (args) => args;',
  clean: `export function main({ n }) {
    let sum = 0;
    for (let i = 0; i < 3; i++) sum += tailor.workflow.execJobFunction('echo', { v: n + i }).v;
    return { sum };
  }`,
};
const cleanFunction = `export function main({ n }) {
  const squares = Array.from({ length: 20_000 }, (_, i) => i * i);
  return { sum: squares.reduce((sum, x) => sum + x, 0) + n };
}`;
const squaresSum = Array.from({ length: 20_000 }, (_, i) => i * i).reduce((sum, x) => sum + x, 0);
const cleanLanes = 4;

/** Sets two workspaces up on a server: one for attacks, one for clean runs. */
export async function openTarget(server: TargetServer, cpu: CpuLimits): Promise<Target> {
  const client = new Client(server);
  const hostile = await client.createWorkspace();
  const clean = await client.createWorkspace();
  for (const workspace of [hostile, clean]) {
    await workspace.uploadJobFunctions(helpers);
    await workspace.putWorkflow('noop', 'echo');
  }
  await clean.putWorkflow('clean', 'clean');
  await client.expect('PUT', `${clean.path}/functions/clean`, { body: cleanFunction });

  return {
    server,
    cpu,
    run: (kind, name, source) => (kind === 'function' ? runFunction(hostile, source) : runJob(hostile, name, source)),
    furnish: (webUrl) => furnish(hostile, webUrl),
    async cleanRuns(count) {
      const wrong: string[] = [];
      let next = 0;
      const lane = async () => {
        for (let n = next++; n < count; n = next++) {
          const problem = await (n % 2 === 0 ? cleanInvocation(clean, n) : cleanExecution(clean, n));
          if (problem !== null) wrong.push(problem);
        }
      };
      await Promise.all(Array.from({ length: cleanLanes }, lane));
      return wrong;
    },
  };
}

async function furnish({ client, path }: Workspace, webUrl: string): Promise<void> {
  await client.expect('PUT', `${path}/tailordb/attacks`);
  const sql = 'create table flood (n int generated always as identity, text text)';
  await client.expect('POST', `${path}/tailordb/attacks/sql`, { body: { sql } });
  await client.expect('PUT', `${path}/machine-users/attacks/attacks`, {
    body: { attributeMap: { text: 'a'.repeat(15_000) } },
  });
  await client.expect('PUT', `${path}/vaults/attacks`);
  const secret = (name: string, value: string) =>
    client.expect('PUT', `${path}/vaults/attacks/secrets/${name}`, { body: { value } });
  await secret('web', webUrl);
  for (let n = 0; n < limits.secretNames; n++) await secret(`s${n}`, 's'.repeat(limits.secretBytes));
}

async function runFunction(workspace: Workspace, script: string): Promise<Outcome> {
  const { status, body } = await workspace.client.post<FunctionAnswer>(`${workspace.path}/functions/test-run`, {
    script,
  });
  const { usage = null } = body;
  if (status === 200) return { code: null, message: '', result: body.result, usage };
  return { code: body.error?.code ?? body.code ?? `HTTP ${status}`, message: textOf(body), result: null, usage };
}

interface FunctionAnswer {
  result?: unknown;
  usage?: Usage;
  code?: string;
  detail?: string;
  error?: { name: string; message: string; code: string };
}

const textOf = ({ error, detail = '' }: FunctionAnswer) => error?.message ?? detail;

async function runJob(workspace: Workspace, name: string, source: string): Promise<Outcome> {
  const workflow = `w-${name.toLowerCase().replace(/[^a-z0-9]+/g, '-')}`;
  const upload = await workspace.client.put<FunctionAnswer>(
    `${workspace.path}/job-functions/${encodeURIComponent(name)}`,
    source,
  );
  if (upload.status !== 200) {
    return {
      code: upload.body.code ?? `HTTP ${upload.status}`,
      message: textOf(upload.body),
      result: null,
      usage: null,
    };
  }
  await workspace.putWorkflow(workflow, name);
  const execution = await workspace.run(workflow);
  const usage = execution.jobExecutions.find(({ path }) => path === name)?.usage ?? null;
  const { error } = execution;
  if (execution.status === 'SUCCESS') return { code: null, message: '', result: execution.result, usage };
  return { code: error?.code ?? execution.status, message: error?.message ?? '', result: null, usage };
}

async function cleanInvocation(workspace: Workspace, n: number): Promise<string | null> {
  const { status, body } = await workspace.client.post<{ result?: { sum: number } }>(
    `${workspace.path}/functions/clean/invoke`,
    { args: { n } },
  );
  return body.result?.sum === squaresSum + n ? null : `clean function ${n}: ${status} ${JSON.stringify(body)}`;
}

async function cleanExecution(workspace: Workspace, n: number): Promise<string | null> {
  const { status, result, error } = await workspace.run('clean', { n });
  const right = JSON.stringify(result) === JSON.stringify({ sum: 3 * n + 3 });
  return status === 'SUCCESS' && right ? null : `clean workflow ${n}: ${status} ${JSON.stringify(result ?? error)}`;
}

/** Whether the server answers that it can serve; asked again for some seconds, since a busy machine may be slow. */
export async function isReady(server: TargetServer): Promise<boolean> {
  for (let tries = 0; tries < 20; tries++) {
    const ready = await fetch(new URL('/readyz', server.url)).then(
      ({ ok }) => ok,
      () => false,
    );
    if (ready) return true;
    await sleep(250);
  }
  return false;
}
