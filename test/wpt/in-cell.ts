import type { HostOperations } from '../../src/globals/host-operations.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { runIn } from '../sandbox/harness.ts';
import type { Outcome } from './suite.ts';

/** What stands before and after the test's script in a cell. */
const before = `
  const finished = Promise.withResolvers();
  globalThis.jobcellReport = (outcomes) => tailor.workflow.execJobFunction('report', { outcomes });
  globalThis.jobcellDone = () => finished.resolve();
  globalThis.main = () => finished.promise;
`;

/** Runs a test's script in a cell of its own, with the server's half of the globals behind it. */
export async function runInCell(sandbox: Sandbox, host: HostOperations, script: string): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const session = host.open('wpt');
  const over = new AbortController();
  const lease = await sandbox.acquire({ workspaceId: 'wpt' });
  try {
    const { end } = await runIn(lease, `{${before}}\n${script}`, {
      format: 'script',
      limits: { cpuMs: 240_000, wallMs: 240_000 },
      onCall: async (call) => {
        if (call.op !== 'execJobFunction') return session.handle(call, over.signal);
        const { outcomes: text } = JSON.parse(call.payload ?? '') as { outcomes: string };
        outcomes.push(...(JSON.parse(text) as Outcome[]));
        return { value: 'null' };
      },
    });
    if (end.type === 'failed') {
      outcomes.push({ name: '(file)', passed: false, message: `${end.error.message}\n${end.error.stack}` });
    }
  } finally {
    over.abort();
    session.close();
    await lease.release();
  }
  return outcomes;
}
