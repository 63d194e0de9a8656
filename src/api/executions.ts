import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { executionExists, getJobExecution, listCalls, listExecutions, listLogs } from '../store/execution-reads.ts';
import type { Workspace } from '../store/workspaces.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import {
  executionSchema,
  executionStatusSchema,
  executionSummarySchema,
  fullJobExecutionSchema,
  jobExecutionSchema,
  journalRecordSchema,
  logLineSchema,
  noExecution,
  readExecution,
  toFullJobExecutionView,
  toJobExecutionView,
  toJournalRecordView,
  toSummaryView,
} from './execution-views.ts';
import { listOf, listQuery, resourceName, toRawJson, toTimestamp, workspaceParams } from './schemas.ts';

const params = workspaceParams.extend({ executionId: z.string() });

export const executionRoutes =
  ({ pool }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Executions'];
    app.addHook('onRequest', access.workspace);

    const requireExecution = async (workspace: Workspace, id: string) => {
      if (!(await executionExists(pool, workspace.id, id))) throw noExecution(workspace, id);
    };

    app.get(
      '/executions',
      {
        schema: {
          tags,
          operationId: 'listExecutions',
          summary: 'List executions, without their values and steps',
          params: workspaceParams,
          querystring: listQuery.extend({
            workflow: resourceName.optional(),
            status: executionStatusSchema.optional(),
          }),
          response: { 200: listOf(executionSummarySchema) },
        },
      },
      async (request) => {
        const { items, nextCursor } = await listExecutions(pool, workspaceOf(request).id, request.query);
        return { items: items.map(toSummaryView), nextCursor };
      },
    );

    app.get(
      '/executions/:executionId',
      {
        schema: {
          tags,
          operationId: 'getExecution',
          summary: 'Get an execution with its steps',
          params,
          response: { 200: executionSchema },
        },
      },
      async (request) => readExecution(pool, workspaceOf(request), request.params.executionId),
    );

    app.get(
      '/executions/:executionId/job-executions',
      {
        schema: {
          tags,
          operationId: 'listJobExecutions',
          summary: 'List all steps of an execution, in the order in which they were called (oldest first)',
          params,
          querystring: listQuery,
          response: { 200: listOf(jobExecutionSchema) },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const { executionId } = request.params;
        await requireExecution(workspace, executionId);
        const steps = await listCalls(pool, workspace.id, executionId, { kind: 'job', ...request.query });
        return { items: steps.items.map(toJobExecutionView), nextCursor: steps.nextCursor };
      },
    );

    app.get(
      '/executions/:executionId/job-executions/:jobExecutionId',
      {
        schema: {
          tags,
          operationId: 'getJobExecution',
          summary: 'Get one step of an execution, with its values in full',
          params: params.extend({ jobExecutionId: z.string() }),
          response: { 200: fullJobExecutionSchema },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const { executionId, jobExecutionId } = request.params;
        const step = await getJobExecution(pool, workspace.id, executionId, jobExecutionId);
        if (step !== null) return toFullJobExecutionView(step);
        throw new JobcellError(
          'NOT_FOUND',
          `There is no job execution \`${jobExecutionId}\` in execution \`${executionId}\` of workspace \`${workspace.name}\`.`,
        );
      },
    );

    app.get(
      '/executions/:executionId/journal',
      {
        schema: {
          tags,
          operationId: 'listJournal',
          summary: 'List every recorded call of an execution: its steps, the executions it started (oldest first)',
          params,
          querystring: listQuery,
          response: { 200: listOf(journalRecordSchema) },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const { executionId } = request.params;
        await requireExecution(workspace, executionId);
        const calls = await listCalls(pool, workspace.id, executionId, request.query);
        return { items: calls.items.map(toJournalRecordView), nextCursor: calls.nextCursor };
      },
    );

    app.get(
      '/executions/:executionId/logs',
      {
        schema: {
          tags,
          operationId: 'listExecutionLogs',
          summary: 'List the log lines of an execution, in the order in which they were written (oldest first)',
          params,
          querystring: listQuery,
          response: { 200: listOf(logLineSchema) },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const { executionId } = request.params;
        await requireExecution(workspace, executionId);
        const lines = await listLogs(pool, workspace.id, executionId, request.query);
        const items = lines.items.map(({ at, level, message, attributes, path, run }) => ({
          at: toTimestamp(at),
          level,
          message,
          attributes: toRawJson(attributes),
          path,
          run,
        }));
        return { items, nextCursor: lines.nextCursor };
      },
    );
  };
