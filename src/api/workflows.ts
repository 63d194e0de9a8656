import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { durationMs, durationPattern } from '../duration.ts';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { deleteWorkflow, getWorkflow, listWorkflows, putWorkflow, type Workflow } from '../store/workflows.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { problems } from './problem.ts';
import {
  jobFunctionName,
  listOf,
  listQuery,
  resourceName,
  timestamp,
  toTimestamp,
  workspaceParams,
} from './schemas.ts';

const hourMs = 3_600_000;

const duration = z
  .string()
  .regex(durationPattern, { error: 'must be a duration such as 500ms, 10s or 5m', abort: true });

/** behaviour.md 4. */
const retryPolicySchema = z
  .strictObject({
    maxRetries: z.int().min(1).max(10),
    initialBackoff: duration.refine((text) => durationMs(text) > 0 && durationMs(text) <= hourMs, {
      error: 'must be more than 0 and at most 1 hour (60m)',
      abort: true,
    }),
    maxBackoff: duration.refine((text) => durationMs(text) <= 24 * hourMs, {
      error: 'must be at most 24 hours (1440m)',
      abort: true,
    }),
    backoffMultiplier: z.number().min(1),
  })
  .refine((policy) => durationMs(policy.maxBackoff) >= durationMs(policy.initialBackoff), {
    error: 'must be at least `initialBackoff`',
    path: ['maxBackoff'],
  });

export const concurrencyPolicySchema = z.strictObject({
  maxConcurrentExecutions: z.int().min(1).max(limits.declaredCap),
});

const jobFunctionVersions = z.record(jobFunctionName, z.int().min(1).max(2_147_483_647));

const definitionSchema = z.strictObject({
  mainJobFunction: jobFunctionName,
  jobFunctions: jobFunctionVersions
    .default({})
    .describe('Versions that executions of this workflow use instead of the newest'),
  concurrencyPolicy: concurrencyPolicySchema.nullable().default(null),
  retryPolicy: retryPolicySchema.nullable().default(null),
});

const workflowSchema = z
  .object({
    name: z.string(),
    mainJobFunction: z.string(),
    jobFunctions: z.record(z.string(), z.int()),
    concurrencyPolicy: concurrencyPolicySchema.nullable(),
    retryPolicy: retryPolicySchema.nullable(),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Workflow' });

const toView = (workflow: Workflow): z.infer<typeof workflowSchema> => ({
  ...workflow,
  createdAt: toTimestamp(workflow.createdAt),
  updatedAt: toTimestamp(workflow.updatedAt),
});

const params = workspaceParams.extend({ name: resourceName });

const noWorkflow = (workspace: string, name: string): JobcellError =>
  new JobcellError('NOT_FOUND', `There is no workflow \`${name}\` in workspace \`${workspace}\`.`);

export const workflowRoutes =
  ({ pool }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Workflows'];
    app.addHook('onRequest', access.workspace);

    app.put(
      '/workflows/:name',
      {
        schema: {
          tags,
          operationId: 'putWorkflow',
          summary: 'Create a workflow, or replace its definition for later executions',
          params,
          body: definitionSchema,
          response: { 200: workflowSchema },
        },
      },
      async (request) => toView(await putWorkflow(pool, workspaceOf(request).id, request.params.name, request.body)),
    );

    app.get(
      '/workflows',
      {
        schema: {
          tags,
          operationId: 'listWorkflows',
          summary: 'List workflows',
          params: workspaceParams,
          querystring: listQuery,
          response: { 200: listOf(workflowSchema) },
        },
      },
      async (request) => {
        const { items, nextCursor } = await listWorkflows(pool, workspaceOf(request).id, request.query);
        return { items: items.map(toView), nextCursor };
      },
    );

    app.get(
      '/workflows/:name',
      {
        schema: {
          tags,
          operationId: 'getWorkflow',
          summary: 'Get a workflow',
          params,
          response: { 200: workflowSchema },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const workflow = await getWorkflow(pool, workspace.id, request.params.name);
        if (workflow === null) throw noWorkflow(workspace.name, request.params.name);
        return toView(workflow);
      },
    );

    app.delete(
      '/workflows/:name',
      {
        schema: {
          tags,
          operationId: 'deleteWorkflow',
          summary: 'Delete a workflow; refused while it has unfinished executions',
          params,
          response: { 204: z.void(), ...problems('CONFLICT') },
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        if (await deleteWorkflow(pool, workspace.id, request.params.name)) return reply.code(204).send();
        throw noWorkflow(workspace.name, request.params.name);
      },
    );
  };
