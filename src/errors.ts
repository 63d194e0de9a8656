/**
 * The one table of coded errors. docs/errors.md explains each, and a test keeps the two in step.
 * `status` is the HTTP status an answer with this code has; codes without one only stand in an execution's `error`.
 */
export const errorTable = {
  BAD_REQUEST: { status: 400, title: 'The request is not valid' },
  UNAUTHORIZED: { status: 401, title: 'No valid token' },
  NOT_FOUND: { status: 404, title: 'Not found' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'The route does not take this method' },
  CONFLICT: { status: 409, title: 'In conflict with what is stored' },
  IDEMPOTENCY_MISMATCH: { status: 409, title: 'The idempotency key was used for another request' },
  ALREADY_RESOLVED: { status: 409, title: 'The wait was resolved already' },
  NOT_WAITING: { status: 404, title: 'The execution does not wait for this' },
  PAYLOAD_TOO_LARGE: { status: 413, title: 'Too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The content type is not supported' },
  INVALID_SCRIPT: { status: 422, title: 'The script cannot be run' },
  SQL_ERROR: { status: 422, title: 'PostgreSQL refused the SQL' },
  INTERNAL: { status: 500, title: 'The server failed' },
  OVERLOADED: { status: 503, title: 'No capacity in time' },
  UNAVAILABLE: { status: 503, title: 'The server is not ready' },
  DATABASE_PERMISSION: { status: 503, title: 'The database user may not do it' },
  NO_SECRET_KEY: { status: 503, title: 'The server lacks the key for secrets' },

  SCRIPT_ERROR: { status: 422, title: 'The script threw an error' },
  MEMORY_LIMIT_EXCEEDED: { status: 422, title: 'Memory limit exceeded' },
  CPU_LIMIT_EXCEEDED: { status: 422, title: 'CPU limit exceeded' },
  TIME_LIMIT_EXCEEDED: { status: 422, title: 'Time limit exceeded' },
  RESULT_NOT_SERIALIZABLE: { status: 422, title: 'The result is not JSON' },

  CELL_CRASHED: { status: 422, title: 'The script crashed its sandbox process' },
  CELL_LOST: { status: 503, title: 'The sandbox process was lost' },
  JOB_FUNCTION_NOT_FOUND: { title: 'No such job function' },
  EXECUTION_POLICY_NOT_FOUND: { title: 'No execution policy covers the key' },
  WORKFLOW_NOT_FOUND: { title: 'No such workflow' },
  MACHINE_USER_NOT_FOUND: { title: 'No such machine user' },
  VAULT_NOT_FOUND: { title: 'No such vault' },
  NAMESPACE_NOT_FOUND: { title: 'No such TailorDB namespace' },
  ARGUMENT_MISMATCH: { title: 'A replayed call differs from the recorded one' },
  STACK_LIMIT_EXCEEDED: { title: 'Too many nested job functions' },
  CALL_NOT_ALLOWED: { title: 'The call is not allowed here' },
  CRASH_LOOP: { title: 'The execution brings its servers down' },
  JOURNAL_LIMIT: { title: 'Too many recorded calls' },
} as const satisfies Record<string, { status?: number; title: string }>;

export type ErrorCode = keyof typeof errorTable;

/** One field of a bad request: `path` in dots, as in `concurrencyPolicy.maxConcurrentExecutions`. */
export interface FieldError {
  path: string;
  message: string;
}

/** An error with a code of the table. `detail` is a sentence: what happened, to what, and what to do. */
export class JobcellError extends Error {
  override readonly name = 'JobcellError';
  readonly code: ErrorCode;
  readonly errors: FieldError[] | undefined;
  /** Further members of the problem document, for example `line` and `column` of INVALID_SCRIPT. */
  readonly extra: Record<string, unknown> | undefined;

  constructor(
    code: ErrorCode,
    detail: string,
    options: { errors?: FieldError[]; extra?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.errors = options.errors;
    this.extra = options.extra;
  }
}
