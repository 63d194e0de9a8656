import type { Logger } from 'pino';
import type { FunctionService } from '../functions/functions.ts';
import type { Secrets } from '../globals/secrets.ts';
import type { Tailordb } from '../globals/tailordb.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Pool } from '../store/database.ts';

/** What the HTTP interface needs of the engine. */
interface Executions {
  /**
   * Starts an execution, or finds the one that the idempotency key started first (`created` is false then).
   * `args` and `invoker` are JSON text.
   * @throws JobcellError NOT_FOUND (no such workflow), IDEMPOTENCY_MISMATCH (the key was used for another request).
   */
  start(request: {
    workspaceId: string;
    workflow: string;
    args: string;
    invoker: string | null;
    replay: 'auto' | 'always' | undefined;
    idempotencyKey: string | undefined;
  }): Promise<{ executionId: string; created: boolean }>;
  /**
   * Waits until the execution is in a final status: true when it is; false when `ms` have passed or the signal aborted.
   */
  waitForFinal(workspaceId: string, executionId: string, ms: number, signal: AbortSignal): Promise<boolean>;
  /** @throws JobcellError NOT_FOUND; CONFLICT unless FAILED, PENDING_RETRY or CANCELED; BAD_REQUEST for an unknown `from`. */
  resume(request: {
    workspaceId: string;
    executionId: string;
    code: 'latest' | 'pinned';
    from: string | undefined;
  }): Promise<void>;
  /** @throws JobcellError NOT_FOUND; CONFLICT when SUCCESS or FAILED. */
  cancel(workspaceId: string, executionId: string): Promise<void>;
  /** Removes what is left of deleted workspaces now, instead of within a minute (D31). */
  tidyUp(): void;
  /** `result` is JSON text. @throws JobcellError NOT_WAITING, ALREADY_RESOLVED */
  resolveWait(wait: { workspaceId: string; executionId: string; key: string }, result: string): Promise<void>;
}

export interface ApiDependencies {
  pool: Pool;
  sandbox: Pick<Sandbox, 'check'>;
  engine: Executions;
  functions: Pick<FunctionService, 'invoke' | 'testRun' | 'written'>;
  secrets: Pick<Secrets, 'putVault' | 'put'>;
  tailordb: Pick<Tailordb, 'put' | 'remove' | 'migrate' | 'tidyUp'>;
  adminToken: string;
  logger: Logger;
  /** What /readyz answers. */
  ready: () => Promise<{ ok: true } | { ok: false; reason: string }>;
}

/** What the routes get: the dependencies, and the signal that ends long polls when the server stops (D30). */
export interface ApiContext extends ApiDependencies {
  closing: AbortSignal;
}
