/** The load of `npm run bench -- policies`: many executions whose keys have few slots, on one server. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';

const executions = 2_000;
const workspaces = 10;
const keysPerWorkspace = 4;
const cap = 1;
const token = 'bench-token-of-this-run-only';

const main = `export const main = ({ key, ms }) => tailor.workflow.execJobFunction('step', { ms }, { executionPolicyKey: key });`;
const step = `export const main = ({ ms }) => new Promise((resolve) => setTimeout(resolve, ms, 1));`;

/** @returns the lines of its section. */
export async function loadUnderPolicies(databaseUrl: string): Promise<string[]> {
  const lines = [
    '| a step takes | caps allow | it took | of what caps allow | suspensions | handover p50 | p90 |',
    '| ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
  ];
  for (const ms of [1_000, 3_000]) lines.push(await measure(databaseUrl, ms));
  const slots = cap === 1 ? '1 slot' : `${cap} slots`;
  return [
    `${executions.toLocaleString('en-US')} executions at once, over ${workspaces} workspaces with ${keysPerWorkspace} keys each and ${slots} a key, on one server: main`,
    'calls one step under its key, and the step sleeps. What the caps allow is the time of the steps one behind the other',
    "in their slots. A handover is from a step's end to the start of the next one in its slot, here of the second half: in",
    'the first, the mains of all executions begin, find their key taken and are suspended, which takes the cores for itself.',
    '',
    ...lines,
  ];
}

async function measure(databaseUrl: string, ms: number): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'jobcell-bench-'));
  const server = spawn(process.execPath, [fileURLToPath(new URL('../dist/jobcell.js', import.meta.url)), 'serve'], {
    env: {
      ...process.env,
      DATABASE_URL: databaseUrl,
      JOBCELL_ADMIN_TOKEN: token,
      JOBCELL_DATA_DIR: folder,
      JOBCELL_PORT: '0',
      JOBCELL_CELLS: '64',
      JOBCELL_LOG_LEVEL: 'warn',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const database = new pg.Client(databaseUrl);
  try {
    await database.connect();
    const url = await new Promise<string>((resolve, reject) => {
      server.stdout.setEncoding('utf8').on('data', (text: string) => {
        const ready = /listening on (\S+)/.exec(text);
        if (ready?.[1] !== undefined) resolve(ready[1]);
      });
      server.once('exit', (code) => reject(new Error(`The server ended with ${code}.`)));
    });
    const ask = async (method: string, path: string, body: unknown) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const answer = await fetch(new URL(path, url), { method, headers, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
      return (await answer.json()) as { executionId: string };
    };
    const paths = Array.from({ length: workspaces }, (_, n) => `/v1/workspaces/load-${ms}-${n}`);
    for (const path of paths) {
      await ask('PUT', path, {});
      await ask('PUT', `${path}/job-functions/main`, { script: main });
      await ask('PUT', `${path}/job-functions/step`, { script: step });
      await ask('PUT', `${path}/workflows/load`, { mainJobFunction: 'main' });
      const policy = { matchType: 'prefix', concurrencyPolicy: { maxConcurrentExecutions: cap } };
      await ask('PUT', `${path}/execution-policies/tenant`, policy);
    }
    const begun = performance.now();
    const ids: string[] = [];
    const atOnce = 32;
    let next = 0;
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        for (let n = next++; n < executions; n = next++) {
          const args = { key: `tenant.${Math.floor(n / workspaces) % keysPerWorkspace}`, ms };
          const { executionId } = await ask('POST', `${paths[n % workspaces]}/workflows/load/start`, { args });
          ids.push(executionId);
        }
      }),
    );
    for (;;) {
      const { rows } = await database.query<{ left: number; failed: number }>(
        `select count(*) filter (where finished_at is null)::int as left, count(*) filter (where status = 'FAILED')::int as failed
         from jobcell.executions where id = any($1)`,
        [ids],
      );
      if (rows[0]!.failed > 0) throw new Error(`${rows[0]!.failed} executions failed`);
      if (rows[0]!.left === 0) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const took = (performance.now() - begun) / 1_000;
    const { rows } = await database.query<{ suspensions: number }>(
      'select sum(fence - 1)::int as suspensions from jobcell.executions where id = any($1)',
      [ids],
    );
    const handovers = await database.query<{ p50: number; p90: number }>(
      `with steps as (
         select started_at, extract(epoch from lead(started_at) over (
                  partition by workspace_id, execution_policy_key order by started_at) - finished_at) * 1000 as gap
         from jobcell.journal where execution_id = any($1) and execution_policy_key is not null)
       select percentile_cont(0.5) within group (order by gap) as p50, percentile_cont(0.9) within group (order by gap) as p90
       from steps where started_at > (select percentile_disc(0.5) within group (order by started_at) from steps)`,
      [ids],
    );
    const ideal = (executions / workspaces / keysPerWorkspace / cap) * (ms / 1_000);
    const { p50, p90 } = handovers.rows[0]!;
    const cells = [
      `${ms / 1_000} s`,
      `${ideal.toFixed(0)} s`,
      `${took.toFixed(1)} s`,
      `${Math.round((100 * ideal) / took)} %`,
      rows[0]!.suspensions.toLocaleString('en-US'),
      `${Math.round(p50)} ms`,
      `${Math.round(p90)} ms`,
    ];
    return `| ${cells.join(' | ')} |`;
  } finally {
    await database.end();
    server.kill('SIGTERM');
    await new Promise((resolve) => server.once('exit', resolve));
    rmSync(folder, { recursive: true, force: true });
  }
}
