import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Outcome } from './suite.ts';

const child = fileURLToPath(new URL('node-child.mjs', import.meta.url));
const patienceMs = 300_000;

/** Runs a test's script in a process of Node's own, whose globals are what ours are compared with. */
export async function runInNode(script: string): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const running = spawn(process.execPath, ['--no-warnings', child], { stdio: ['pipe', 'ignore', 'ignore', 'pipe'] });
  const timer = setTimeout(() => running.kill('SIGKILL'), patienceMs);
  let text = '';
  (running.stdio[3] as Readable).setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  running.stdin?.on('error', () => {});
  running.stdin?.end(script);
  await new Promise((resolve) => running.once('close', resolve));
  clearTimeout(timer);
  for (const line of text.split('\n')) if (line.startsWith('[')) outcomes.push(...(JSON.parse(line) as Outcome[]));
  return outcomes;
}
