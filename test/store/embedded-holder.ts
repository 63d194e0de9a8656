// A process that starts the embedded database on the folder it is given, prints its address and holds it.
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../src/store/embedded.ts';

const { url } = await startEmbeddedPostgres(process.argv[2]!, pino({ level: 'silent' }), { durable: false });
console.log(url);
setInterval(() => undefined, 60_000);
