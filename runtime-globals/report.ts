import { bundle } from './bundles.ts';
import { log } from './log.ts';

/** Logs what a callback threw that nobody waits for; it fails nothing (D34). */
export function reportException(thrown: unknown): void {
  log('error', `Uncaught ${typeof thrown === 'string' ? thrown : bundle('inspect').inspect(thrown)}`);
}
