import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { packageRoot } from '../../src/paths.ts';
import { nodeBinary } from '../support/server-process.ts';

/** Everything of the published types that this server has. Each line is what a script's author may write. */
const script = `
  const vault: Promise<string | undefined> = tailor.secretmanager.getSecret('vault', 'KEY');
  const several: Promise<Partial<Record<'A' | 'B', string>>> = tailor.secretmanager.getSecrets('vault', ['A', 'B']);

  const text: string = tailor.iconv.decode(new Uint8Array([0x93, 0xfa]), 'Shift_JIS');
  const bytes: Uint8Array = tailor.iconv.encode(text, 'EUC-JP');
  const same: string = tailor.iconv.encode(text, 'UTF-8');
  const converted: string = tailor.iconv.convert(bytes, 'EUC-JP', 'UTF8');
  const again: Uint8Array = tailor.iconv.convertBuffer(bytes, 'EUC-JP', 'Shift_JIS');
  const names: string[] = tailor.iconv.encodings();
  const either: string | Uint8Array = new tailor.iconv.Iconv('Shift_JIS', 'UTF-8').convert(again);

  async function rows() {
    const client = new tailordb.Client({ namespace: 'main-db' });
    await client.connect();
    const result = await client.queryObject<{ n: number }>('select n from t where n > $1', [1]);
    const first: number | undefined = result.rows[0]?.n;
    const count: number = result.rowCount;
    const selected: boolean = result.command === 'SELECT';
    await client.end();
    return { first, count, selected };
  }

  async function start() {
    const options: tailor.workflow.TriggerWorkflowOptions = { authInvoker: { namespace: 'my-auth', machineUserName: 'bot' } };
    const id: string = await tailor.workflow.triggerWorkflow('flow', { a: 1 }, options);
    const answer = tailor.workflow.triggerJobFunction('job', { id });
    return answer.value;
  }

  export const main = async () => [await vault, await several, same, converted, names, either, await rows(), await start()];
`;

/** What is not there, so that this test would notice if nothing were checked. */
const wrong = `tailor.secretmanager.getSecret('vault');\nexport {};\n`;

test.each([
  ['a script against the published types of the platform', script, 0],
  ['a wrong one', wrong, 1],
])('%s', { timeout: 120_000 }, async (_, text, expected) => {
  const folder = mkdtempSync(join(inject('runFolder'), 'types-'));
  writeFileSync(join(folder, 'script.ts'), text);
  const options = { strict: true, noEmit: true, target: 'es2023', module: 'esnext', moduleResolution: 'bundler' };
  const typesFile = join(packageRoot, 'node_modules', '@tailor-platform', 'function-types', 'tailor.d.ts');
  const config = { compilerOptions: { ...options, lib: ['es2023'], types: [] }, files: ['script.ts', typesFile] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const { code, output } = await new Promise<{ code: unknown; output: string }>((resolve) => {
    const tsc = join(packageRoot, 'node_modules', 'typescript', 'bin', 'tsc');
    execFile(nodeBinary, [tsc, '-p', folder], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : 1, output: stdout + stderr });
    });
  });
  expect(code, output).toBe(expected);
  if (expected === 1) expect(output).toContain('error TS2554');
});
