import { context } from '../host.ts';

export const makeContext = () => ({
  /** Who started this run, or null when nobody is known. Synchronous. */
  getInvoker: (): unknown => context().invoker ?? null,
});
