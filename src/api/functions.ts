import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { type ErrorCode, errorTable, JobcellError } from '../errors.ts';
import type { FunctionFailure, Invoked } from '../functions/invocation.ts';
import { limits } from '../limits.ts';
import type { LogLine } from '../sandbox/protocol.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { usageSchema } from './execution-views.ts';
import { RawJson } from './json.ts';
import { type HttpErrorCode, problemSchema, problems, tooLarge } from './problem.ts';
import { disconnected, resolveInvoker, runInput } from './run-input.ts';
import { anyJson, jobFunctionName, timestamp, toTenths, toTimestamp, workspaceParams } from './schemas.ts';
import { scriptRoutes } from './script-bundles.ts';
import { valueText, valueTooLarge } from './value-text.ts';

/** Functions: scripts of 32 MB that are run on request and answer at once. */
export const functionRoutes = scriptRoutes({
  type: 'STANDARD',
  segment: 'functions',
  id: 'Function',
  tag: 'Functions',
  noun: 'function',
  deleteNote: 'what runs goes on',
});

const logLine = z
  .object({ at: timestamp, level: z.string(), message: z.string(), attributes: anyJson.optional() })
  .meta({ id: 'FunctionLogLine' });

const executionId = z.uuid().describe('Of the function execution that is stored');

/** What an answer says about the run, whatever became of it. */
const runFields = {
  logs: z.array(logLine),
  usage: usageSchema,
  queueMs: z.number().describe('How long it waited for a sandbox process'),
  runMs: z.number().describe('How long it then ran'),
};

const invokedSchema = z.object({ executionId, result: anyJson, ...runFields }).meta({ id: 'Invoked' });

const failedSchema = problemSchema
  .extend({
    ...z.object({ executionId, ...runFields }).partial().shape,
    error: z
      .looseObject({ name: z.string(), message: z.string(), stack: z.string(), code: z.string() })
      .optional()
      .describe(
        'What the script threw; with a code of docs/errors.md, since a limit or a call of ours may be the cause',
      ),
  })
  .meta({ id: 'InvocationProblem' });

/** Failures of the script are 422, whatever status the code has elsewhere (http-api.md, "Functions"). */
const scriptFailures = [
  'SCRIPT_ERROR',
  'INVALID_SCRIPT',
  'MEMORY_LIMIT_EXCEEDED',
  'CPU_LIMIT_EXCEEDED',
  'TIME_LIMIT_EXCEEDED',
  'RESULT_NOT_SERIALIZABLE',
  'PAYLOAD_TOO_LARGE',
  'CELL_CRASHED',
] as const satisfies HttpErrorCode[];
const ourFailures = ['CONFLICT', 'CELL_LOST', 'UNAVAILABLE', 'INTERNAL'] as const satisfies HttpErrorCode[];

const describeCodes = (codes: readonly ErrorCode[]) =>
  codes.map((code) => `\`${code}\`: ${errorTable[code].title}`).join('; ');
const runProblem = (codes: readonly ErrorCode[]) => ({
  description: describeCodes(codes),
  content: { 'application/problem+json': { schema: failedSchema } },
});

const response = {
  200: invokedSchema,
  409: runProblem(['CONFLICT']),
  422: runProblem(scriptFailures),
  503: runProblem(['OVERLOADED', 'CELL_LOST', 'UNAVAILABLE']),
};

export const invokeRoutes =
  ({ pool, functions }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Functions'];
    app.addHook('onRequest', access.workspace);

    app.post(
      '/functions/:name/invoke',
      {
        bodyLimit: limits.startBodyBytes,
        config: { tooLarge: valueTooLarge('args') },
        schema: {
          tags,
          operationId: 'invokeFunction',
          summary: 'Run a function and answer its result. A client that goes away cancels the run',
          params: workspaceParams.extend({ name: jobFunctionName }),
          body: z.strictObject(runInput).prefault({}),
          response: { ...response, ...problems('PAYLOAD_TOO_LARGE') },
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        const { args, invoker } = request.body;
        return toView(
          await functions.invoke({
            workspaceId: workspace.id,
            revision: workspace.revision,
            name: request.params.name,
            args: valueText('args', args ?? {}),
            invoker: await resolveInvoker(pool, invoker, workspace),
            signal: disconnected(request, reply),
          }),
        );
      },
    );

    app.post(
      '/functions/test-run',
      {
        bodyLimit: limits.uploadBodyBytes,
        config: { tooLarge: () => tooLarge('A script', limits.scriptBytes) },
        schema: {
          tags,
          operationId: 'testRunFunction',
          summary: 'Run a script that is not stored, as a function or under the limits of a job function',
          params: workspaceParams,
          body: z.strictObject({
            script: z.string().refine((text) => text.isWellFormed(), {
              error: 'holds half of a surrogate pair, which has no UTF-8 form',
            }),
            type: z
              .enum(['STANDARD', 'JOB'])
              .default('STANDARD')
              .describe('JOB: 256 MB and the CPU time of a job function; still outside of any workflow'),
            ...runInput,
          }),
          response,
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        const { script, type, args, invoker } = request.body;
        if (Buffer.byteLength(script) > limits.scriptBytes) throw tooLarge('A script', limits.scriptBytes);
        return toView(
          await functions.testRun({
            workspaceId: workspace.id,
            script,
            type,
            args: valueText('args', args ?? {}),
            invoker: await resolveInvoker(pool, invoker, workspace),
            signal: disconnected(request, reply),
          }),
        );
      },
    );
  };

/** The result goes into the answer as the script made it (D33). @throws JobcellError for an invocation that failed. */
function toView(invoked: Invoked): z.infer<typeof invokedSchema> {
  const { executionId, logs, usage, queueMs, runMs } = invoked;
  const run = {
    logs: logs.map(toLogView),
    usage,
    queueMs: toTenths(queueMs),
    runMs: toTenths(runMs),
  };
  if (invoked.status === 'SUCCESS') return { executionId, result: new RawJson(invoked.result), ...run };
  if (invoked.status === 'CANCELED') throw new JobcellError('UNAVAILABLE', 'The client is gone; the run was canceled.');
  throw toProblem(invoked.failure, { executionId, ...run });
}

function toProblem(failure: FunctionFailure, run: object): JobcellError {
  const { name, message, stack, code, line, column } = failure;
  const error = { name, message, stack, code };
  const scriptCode = scriptFailures.find((known) => known === code);
  const place = line === undefined ? {} : { line, column };
  if (scriptCode !== undefined && scriptCode !== 'SCRIPT_ERROR') {
    return new JobcellError(scriptCode, message, { extra: { status: 422, ...run, error, ...place } });
  }
  const ourCode = ourFailures.find((known) => known === code);
  if (ourCode !== undefined) return new JobcellError(ourCode, message, { extra: { ...run, error } });
  // What a call of ours threw and the script let through is the script's error, with the call's code in it.
  const detail = `The function threw ${name}: ${message}`;
  return new JobcellError('SCRIPT_ERROR', detail, { extra: { status: 422, ...run, error } });
}

function toLogView({ at, level, message, attributes }: LogLine) {
  const line: { at: string; level: string; message: string; attributes?: RawJson } = {
    at: toTimestamp(new Date(at)),
    level,
    message,
  };
  if (attributes !== undefined) line.attributes = new RawJson(attributes);
  return line;
}
