/**
 * Every number the platform promises, once. The comment behind each names its source:
 * PL = platform-limits.md, WF = workflow.md, B = behaviour.md, H = http-api.md, S = sandbox.md, D = durability.md.
 */
const KiB = 1024;
const MiB = 1024 * KiB;

export const limits = {
  /** PL "Memory Limits": MB one run of a Function may hold. */
  functionMemoryMb: 32,
  /** PL "Memory Limits": MB one run of a job function may hold. */
  jobFunctionMemoryMb: 256,
  /** B 4 "time limits": wall time of a Function, ms. */
  functionWallMs: 60_000,
  /** B 4 "time limits": wall time of one body of a job function, ms; blocked and waiting time does not count (D26). */
  jobFunctionWallMs: 24 * 3_600_000,
  /** Default CPU time of a Function, ms. */
  functionCpuMs: 10_000,
  /** Default CPU time of one dispatch of a job function, ms. */
  jobFunctionCpuMs: 300_000,
  /** H "Functions": how long an invocation waits for a cell before it is OVERLOADED, ms. */
  functionQueueMs: 5_000,
  /** Invocations that wait for a cell on one server, and bytes of their arguments and scripts (S4); half of each for one workspace. */
  functionQueue: 1_000,
  functionQueueBytes: 64 * MiB,
  /** H "Script bundles": CPU time a script may use while it is checked at upload, ms. */
  uploadCpuMs: 1_000,

  /** PL "Workflow Concurrency Limits": executions that run at once, in a workspace and of one workflow. */
  workspaceExecutions: 50,
  workflowExecutions: 20,
  /** PL "Workflow Job Function Concurrency Limits": dispatches at once in a workspace, each body of each stack. */
  workspaceDispatches: 100,
  /** The same, of one execution policy key, where a policy that covers it sets no cap of its own. */
  keyDispatches: 50,
  /** B 4, `maxConcurrentExecutions`: the largest cap that can be declared. */
  declaredCap: 1_000,
  /** D20: an execution that was passed over for so long, ms, or so often, has what comes free kept for it. */
  starvingMs: 60_000,
  starvingTries: 100,

  /** PL "Service Limits", Recursive Call Limit: nested platform-to-platform requests. */
  depth: 10,
  /** B 4 "depth", D24: frames of one run's stack, `main` included. */
  stackFrames: 10,
  /** D23: how often a step is run again after its cell was lost through no fault of its own. */
  cellLossesPerStep: 3,
  /** D24: cell deaths in one attempt before the execution fails. */
  cellDeathsPerAttempt: 50,
  /** D24: takeovers in a row without a new record before the execution fails. */
  takeoversWithoutProgress: 10,
  /** Days a workspace keeps its finished executions unless it says otherwise. */
  retentionDays: 30,
  /** D24: recorded calls of one execution, and bytes of their arguments, results and errors. */
  journalRecords: 100_000,
  journalBytes: 1024 * MiB,
  /** S4: of those, what a server keeps in memory of one run; the rest is read again when a replay needs it. */
  journalKeptBytes: 2 * MiB,

  /** H "Rules for every route": bytes of a script. */
  scriptBytes: 16 * MiB,
  /** H "Rules for every route": bytes of arguments or of a result, as JSON text in UTF-8. */
  payloadBytes: 4 * MiB,
  /** Arrays and objects inside each other in a body, in arguments or in a result: reading deeper ones stalls a server. */
  jsonDepth: 1_000,
  /** Bytes of the JSON form of an upload: JSON escapes make a script longer, and its source map comes with it. */
  uploadBodyBytes: 48 * MiB,
  /** Bytes of the body of a start: the arguments and what stands around them. */
  startBodyBytes: 5 * MiB,
  /** S4: bytes of an invoker's attributes, as JSON text; every execution keeps them. */
  invokerBytes: 16 * KiB,
  /** Bytes of any other body. */
  bodyBytes: 1 * MiB,
  /** H "Workflows and executions": a value in an execution's answer is embedded up to this many bytes. */
  embeddedValueBytes: 16 * KiB,
  /** H "Workflows and executions": job executions embedded in an execution's answer. */
  embeddedJobExecutions: 200,
  /** H "Rules for every route": rows of a list by default, and at most. */
  listDefault: 50,
  listMax: 200,
  /** H "Workflows and executions": seconds `?wait=` may ask for. */
  waitSeconds: 60,
  /** H "Workflows and executions": characters of an Idempotency-Key. */
  idempotencyKeyChars: 255,

  /** S "The design" 5: bytes of one log line and of all log lines of one run of a body. */
  logLineBytes: 8 * KiB,
  logRunBytes: 1 * MiB,
  /** B 2, `tailor.logger`: attributes of a line, bytes of a key, bytes a string is cut at. */
  logAttributes: 32,
  logAttributeKeyBytes: 128,
  logAttributeValueBytes: 4 * KiB,
  /** S "The design" 5: host calls of one isolate that are under way at once. */
  outstandingHostCalls: 256,
  /** S4: connections of one run at once; more requests wait. */
  fetchConnections: 64,
  /** Time of one fetch, from the call to the end of its body, ms. */
  fetchMs: 300_000,
  /** PL "Fetch Response Body Size Limit": bytes of a response's body that text(), json() and their kind read. */
  fetchBufferedBytes: 10 * MiB,
  /** S4: bytes of a response's body that the server holds until the script wants more, and of a request's that it is sent at once. */
  fetchChunkBytes: 64 * KiB,
  /** S4: a request's body up to this many bytes goes along with the request; a larger one is streamed. */
  fetchBodyBytes: 4 * MiB,
  /** S4: bytes of the URL and the headers of one request. */
  fetchHeadBytes: 64 * KiB,
  /** S4: bytes of the requests that one run has under way, their bodies included. */
  fetchRunBytes: 16 * MiB,
  /** Bytes, or characters of text, that `tailor.iconv` converts at once. */
  iconvBytes: 10 * MiB,
  /** S4: bytes of a secret's value, and secrets that one call reads. */
  secretBytes: 32 * KiB,
  secretNames: 100,
  /** TailorDB namespaces of a workspace. */
  tailordbNamespaces: 20,
  /** PL "TailorDB Select Result Size Limit": bytes of a result's rows, as PostgreSQL sends them. */
  tailordbResultBytes: 128 * MiB,
  /** Time of one statement, the reading of its result included, ms. */
  tailordbStatementMs: 60_000,
  /** Time of the SQL that an administrator sends, ms. */
  tailordbMigrationMs: 300_000,
  /** A connection, or a transaction, that nothing is asked of for so long is ended, ms. */
  tailordbIdleMs: 60_000,
  /** How long a script waits for a free connection, ms. */
  tailordbWaitMs: 30_000,
  /** S4: connections of one run at once. */
  tailordbRunConnections: 10,
  /** S4: bytes of the texts of one call of crypto.subtle. */
  cryptoBytes: 32 * MiB,
  /** Iterations of PBKDF2, and bits of an RSA key that is generated: a call cannot be interrupted. */
  cryptoIterations: 10_000_000,
  cryptoModulusBits: 4_096,
  /** S4: compression streams of one isolate that are open at once, and bytes of input or output that cross at a time. */
  compressionStreams: 64,
  compressionChunkBytes: 64 * KiB,
  /** D12: readings of the clock that are kept between two recorded calls of a body. */
  clockReadings: 256,
  /** S4: timers of one isolate that are set at once. */
  timers: 10_000,
  /** D33: bytes of an error's name, message and stack. */
  errorNameBytes: 256,
  errorMessageBytes: 8 * KiB,
  errorStackBytes: 32 * KiB,
} as const;
