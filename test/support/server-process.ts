import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/paths.ts';
import { endWithThisProcess } from './reaper.ts';

export const nodeBinary = join(packageRoot, 'node_modules', '.bin', 'node');
export const jobcellScript = join(packageRoot, 'dist', 'jobcell.js');

const startSeconds = 45;

/** A process of `jobcell serve` that is ready. */
export interface ServerProcess {
  url: string;
  child: ChildProcess;
  end: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Everything it wrote to stderr so far. */
  logs(): string;
  /** Everything it wrote to stdout so far. */
  output(): string;
}

/** Starts a server with this environment and waits until it is ready. It ends with this process at the latest. */
export async function launch(env: Record<string, string | undefined>): Promise<ServerProcess> {
  const child = spawn(nodeBinary, [jobcellScript, 'serve'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  endWithThisProcess(child);
  let output = '';
  let logs = '';
  const end = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    logs += text;
  });
  const url = await new Promise<string>((resolve, reject) => {
    const fail = (what: string) => reject(new Error(`The server ${what}. It wrote:\n${output}${logs}`));
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      fail(`was not ready within ${startSeconds} s`);
    }, startSeconds * 1_000);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      const ready = /^jobcell listening on (http:\/\/\S+)$/m.exec(output);
      if (ready === null) return;
      clearTimeout(timer);
      resolve(ready[1]!);
    });
    void end.then(({ code, signal }) => {
      clearTimeout(timer);
      fail(`ended with ${signal ?? `exit code ${code}`}`);
    });
  });
  return { url, child, end, logs: () => logs, output: () => output };
}

/** A server's cells: its child processes, oldest first. None when it has ended. */
export function cellsOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Those of the processes that still run. One that has ended stays a zombie while its parent is stopped. */
export function runningOf(pids: number[]): number[] {
  return pids.filter((pid) => {
    try {
      return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
    } catch {
      return false;
    }
  });
}
