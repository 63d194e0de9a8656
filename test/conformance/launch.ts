import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../src/paths.ts';
import { endWithThisProcess } from '../support/reaper.ts';
import { type CpuLimits, environmentOf, type TargetServer } from './target.ts';

const adminToken = 'conformance-admin-token';

/**
 * A server on its own embedded database, in a folder that goes with it.
 * @param web the URL of a server that scripts may fetch from
 */
export async function launchServer(cpu: CpuLimits, web: string): Promise<TargetServer & { stop(): Promise<void> }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jobcell-conformance-'));
  const child = spawn(process.execPath, [join(packageRoot, 'dist', 'jobcell.js'), 'serve'], {
    env: {
      ...process.env,
      DATABASE_URL: '',
      JOBCELL_HOST: '127.0.0.1',
      JOBCELL_PORT: '0',
      JOBCELL_ADMIN_TOKEN: adminToken,
      JOBCELL_DATA_DIR: dataDir,
      JOBCELL_FETCH_ALLOW: new URL(web).host,
      JOBCELL_LOG_LEVEL: process.env.JOBCELL_LOG_LEVEL ?? 'error',
      ...environmentOf(cpu),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  endWithThisProcess(child);
  const removeFolder = () => rmSync(dataDir, { recursive: true, force: true, maxRetries: 10 });
  process.once('exit', removeFolder);
  const ended = once(child, 'exit');
  let output = '';
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      const ready = /^jobcell listening on (http:\/\/\S+)$/m.exec(output);
      if (ready !== null) resolve(ready[1]!);
    });
    ended.then(() => reject(new Error(`The server ended before it was ready. It wrote:\n${output}`)), reject);
  });
  return {
    url,
    adminToken,
    pid: child.pid!,
    async stop() {
      child.kill('SIGTERM');
      await ended;
      process.off('exit', removeFolder);
      removeFolder();
    },
  };
}
