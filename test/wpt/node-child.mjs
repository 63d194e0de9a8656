// Runs the script on stdin with Node's own globals, and writes the batches of outcomes as lines of JSON.
import { readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';

const { stdout } = process;
globalThis.jobcellReport = (outcomes) => stdout.write(`${outcomes}\n`);
globalThis.jobcellDone = () => stdout.write('', () => process.exit(0));
// A test says by itself what it makes of these.
process.on('uncaughtException', () => {});
process.on('unhandledRejection', () => {});
runInThisContext(readFileSync(0, 'utf8'), { filename: 'test.js' });
