// Runs the script on stdin with Node's own globals, and writes the batches of outcomes as lines of JSON to a pipe of its
// own, since tests may log.
import { createWriteStream, readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';

const outcomesPipe = createWriteStream('', { fd: 3 });
globalThis.jobcellReport = (outcomes) => outcomesPipe.write(`${outcomes}\n`);
globalThis.jobcellDone = () => outcomesPipe.end(() => process.exit(0));
// A test says by itself what it makes of these.
process.on('uncaughtException', () => {});
process.on('unhandledRejection', () => {});
runInThisContext(readFileSync(0, 'utf8'), { filename: 'test.js' });
