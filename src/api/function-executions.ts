import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import {
  type FunctionExecution,
  type FunctionExecutionSummary,
  functionStatuses,
  getFunctionExecution,
  listFunctionExecutions,
  listFunctionLogs,
} from '../store/function-executions.ts';
import type { Workspace } from '../store/workspaces.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { usageSchema } from './execution-views.ts';
import {
  anyJson,
  embeddedJson,
  executionError,
  jobFunctionName,
  listOf,
  listQuery,
  optionalTimestamp,
  timestamp,
  toEmbeddedJson,
  toOptionalTimestamp,
  toRawJson,
  toTenths,
  toTimestamp,
  workspaceParams,
} from './schemas.ts';

const statusSchema = z.enum(functionStatuses);

const summarySchema = z
  .object({
    id: z.uuid(),
    function: z.string().nullable().describe('Its name; null for a test run'),
    version: z.int().nullable(),
    type: z.enum(['STANDARD', 'JOB']),
    status: statusSchema,
    error: executionError,
    usage: usageSchema.nullable(),
    queueMs: z.number().nullable().describe('How long it waited for a sandbox process; null for a job execution'),
    runMs: z.number().nullable().describe('How long it then ran; null while it runs'),
    step: z
      .object({ executionId: z.uuid(), path: z.string() })
      .nullable()
      .describe('Of a job execution: the step of a workflow that it is'),
    createdAt: timestamp,
    startedAt: timestamp,
    finishedAt: optionalTimestamp,
  })
  .meta({ id: 'FunctionExecutionSummary' });

const functionExecutionSchema = summarySchema
  .extend({ args: embeddedJson, result: embeddedJson })
  .meta({ id: 'FunctionExecution' });

const logLineSchema = z
  .object({ at: timestamp, level: z.string(), message: z.string(), attributes: anyJson })
  .meta({ id: 'StoredFunctionLogLine' });

const toSummaryView = (execution: FunctionExecutionSummary): z.infer<typeof summarySchema> => ({
  id: execution.id,
  function: execution.name,
  version: execution.version,
  type: execution.type,
  status: execution.status,
  error: toRawJson(execution.error),
  usage: execution.usage,
  queueMs: execution.queueMs === null ? null : toTenths(execution.queueMs),
  runMs: execution.runMs === null ? null : toTenths(execution.runMs),
  step: execution.step,
  createdAt: toTimestamp(execution.createdAt),
  startedAt: toTimestamp(execution.startedAt),
  finishedAt: toOptionalTimestamp(execution.finishedAt),
});

const params = workspaceParams.extend({ executionId: z.string() });

/** What became of invocations. Answers on the server that ran them hold everything that was answered before. */
export const functionExecutionRoutes =
  ({ pool, functions }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Functions'];
    app.addHook('onRequest', access.workspace);

    /** @throws JobcellError NOT_FOUND */
    async function find(workspace: Workspace, id: string): Promise<FunctionExecution> {
      await functions.written();
      const execution = await getFunctionExecution(pool, workspace.id, id);
      if (execution !== null) return execution;
      throw new JobcellError(
        'NOT_FOUND',
        `There is no function execution \`${id}\` in workspace \`${workspace.name}\`.`,
      );
    }

    app.get(
      '/function-executions',
      {
        schema: {
          tags,
          operationId: 'listFunctionExecutions',
          summary: 'List invocations of functions and test runs, without their values',
          params: workspaceParams,
          querystring: listQuery.extend({ function: jobFunctionName.optional(), status: statusSchema.optional() }),
          response: { 200: listOf(summarySchema) },
        },
      },
      async (request) => {
        await functions.written();
        const { items, nextCursor } = await listFunctionExecutions(pool, workspaceOf(request).id, request.query);
        return { items: items.map(toSummaryView), nextCursor };
      },
    );

    app.get(
      '/function-executions/:executionId',
      {
        schema: {
          tags,
          operationId: 'getFunctionExecution',
          summary: 'Get an invocation, a test run, or a job execution by its id',
          params,
          response: { 200: functionExecutionSchema },
        },
      },
      async (request) => {
        const execution = await find(workspaceOf(request), request.params.executionId);
        const { id, function: name, version, type, status, ...rest } = toSummaryView(execution);
        const args = toEmbeddedJson(execution.args);
        const result = toEmbeddedJson(execution.result);
        return { id, function: name, version, type, status, args, result, ...rest };
      },
    );

    app.get(
      '/function-executions/:executionId/logs',
      {
        schema: {
          tags,
          operationId: 'listFunctionExecutionLogs',
          summary: 'List the log lines of a function execution, in the order in which they were written (oldest first)',
          params,
          querystring: listQuery,
          response: { 200: listOf(logLineSchema) },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const execution = await find(workspace, request.params.executionId);
        const { items, nextCursor } = await listFunctionLogs(pool, workspace.id, execution, request.query);
        return {
          items: items.map(({ at, level, message, attributes }) => ({
            at: toTimestamp(at),
            level,
            message,
            attributes: toRawJson(attributes),
          })),
          nextCursor,
        };
      },
    );
  };
