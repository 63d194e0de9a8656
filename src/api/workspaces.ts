import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { limits } from '../limits.ts';
import { countExpired, removeAllExpired, removeDeletedWorkspace } from '../store/retention.ts';
import { deleteWorkspace, listWorkspaces, putWorkspace, type Workspace } from '../store/workspaces.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { problems } from './problem.ts';
import {
  listOf,
  listQuery,
  optionalTimestamp,
  resourceName,
  timestamp,
  toOptionalTimestamp,
  toTimestamp,
  workspaceParams,
} from './schemas.ts';

const workspaceSchema = z
  .object({
    id: z.uuid(),
    name: z.string(),
    status: z.enum(['ACTIVE', 'DELETING']).describe('DELETING: it takes no new work, and its rows are being removed'),
    revision: z.int().describe('Rises with each upload and delete of a script'),
    retentionDays: z.int().describe('Days its finished executions are kept'),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Workspace' });

const toView = (workspace: Workspace): z.infer<typeof workspaceSchema> => ({
  id: workspace.id,
  name: workspace.name,
  status: workspace.deleting ? 'DELETING' : 'ACTIVE',
  revision: workspace.revision,
  retentionDays: workspace.retentionDays,
  createdAt: toTimestamp(workspace.createdAt),
  updatedAt: toTimestamp(workspace.updatedAt),
});

const workspaceBody = z
  .strictObject({
    retentionDays: z
      .int()
      .min(1)
      .max(3_650)
      .optional()
      .describe(`Days its finished executions are kept; ${limits.retentionDays} at first`),
  })
  .prefault({});

/** How long a delete may make its client wait, ms; what is left then goes in the background. */
const deleteMs = 5_000;

const deletedSchema = z.object({ status: z.literal('DELETING') });

const retentionReport = z
  .object({
    dryRun: z.boolean(),
    executions: z.int().describe('How many went, or would go'),
    functionExecutions: z.int().describe('Of the Function service, likewise'),
    oldestFinishedAt: optionalTimestamp,
    newestFinishedAt: optionalTimestamp,
  })
  .meta({ id: 'RetentionReport' });

export const workspaceRoutes =
  ({ pool, engine, tailordb }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Workspaces'];

    app.put(
      '/:workspace',
      {
        onRequest: access.admin,
        schema: {
          tags,
          operationId: 'putWorkspace',
          summary: 'Create or update a workspace',
          params: z.object({ workspace: resourceName }),
          body: workspaceBody,
          response: { 200: workspaceSchema },
        },
      },
      async (request) => toView(await putWorkspace(pool, request.params.workspace, request.body)),
    );

    app.get(
      '',
      {
        onRequest: access.admin,
        schema: {
          tags,
          operationId: 'listWorkspaces',
          summary: 'List workspaces',
          querystring: listQuery,
          response: { 200: listOf(workspaceSchema) },
        },
      },
      async (request) => {
        const { items, nextCursor } = await listWorkspaces(pool, request.query);
        return { items: items.map(toView), nextCursor };
      },
    );

    app.get(
      '/:workspace',
      {
        onRequest: access.workspace,
        schema: {
          tags,
          operationId: 'getWorkspace',
          summary: 'Get a workspace; its own tokens may, too',
          params: workspaceParams,
          response: { 200: workspaceSchema },
        },
      },
      async (request) => toView(workspaceOf(request)),
    );

    app.delete(
      '/:workspace',
      {
        onRequest: [access.admin, access.workspace],
        schema: {
          tags,
          operationId: 'deleteWorkspace',
          summary:
            'Delete a workspace and everything in it; refused while it has unfinished executions. 204 when it is gone, 202 while its rows are being removed',
          params: workspaceParams,
          querystring: z.strictObject({
            force: z
              .stringbool()
              .default(false)
              .describe('Cancel unfinished executions, end running functions, and remove it all in the background'),
          }),
          response: { 202: deletedSchema, 204: z.void(), ...problems('CONFLICT') },
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        const { force } = request.query;
        await deleteWorkspace(pool, workspace, force);
        if (!force && (await removeDeletedWorkspace(pool, workspace.id, deleteMs))) {
          tailordb.tidyUp();
          return reply.code(204).send();
        }
        engine.tidyUp();
        return reply.code(202).send({ status: 'DELETING' });
      },
    );

    app.post(
      '/:workspace/retention',
      {
        onRequest: [access.admin, access.workspace],
        schema: {
          tags,
          operationId: 'applyRetention',
          summary:
            'Remove finished executions older than the workspace keeps them now; with `dryRun`, say what would go',
          params: workspaceParams,
          body: z.strictObject({ dryRun: z.boolean().default(false) }).prefault({}),
          response: { 200: retentionReport },
        },
      },
      async (request) => {
        const { dryRun } = request.body;
        const { executions, functionExecutions, oldestFinishedAt, newestFinishedAt } = await countExpired(
          pool,
          workspaceOf(request).id,
        );
        if (!dryRun) await removeAllExpired(pool, workspaceOf(request).id);
        return {
          dryRun,
          executions,
          functionExecutions,
          oldestFinishedAt: toOptionalTimestamp(oldestFinishedAt),
          newestFinishedAt: toOptionalTimestamp(newestFinishedAt),
        };
      },
    );
  };
