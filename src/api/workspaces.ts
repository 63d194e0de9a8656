import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { deleteWorkspace, listWorkspaces, putWorkspace, type Workspace } from '../store/workspaces.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { problems } from './problem.ts';
import { listOf, listQuery, resourceName, timestamp, toTimestamp, workspaceParams } from './schemas.ts';

const workspaceSchema = z
  .object({
    id: z.uuid(),
    name: z.string(),
    revision: z.int().describe('Rises with each upload and delete of a script'),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Workspace' });

const toView = (workspace: Workspace): z.infer<typeof workspaceSchema> => ({
  id: workspace.id,
  name: workspace.name,
  revision: workspace.revision,
  createdAt: toTimestamp(workspace.createdAt),
  updatedAt: toTimestamp(workspace.updatedAt),
});

export const workspaceRoutes =
  ({ pool }: ApiContext, access: Access): FastifyPluginAsyncZod =>
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
          body: z.strictObject({}).optional(),
          response: { 200: workspaceSchema },
        },
      },
      async (request) => toView(await putWorkspace(pool, request.params.workspace)),
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
          summary: 'Delete a workspace and everything in it; refused while it has unfinished executions',
          params: workspaceParams,
          response: { 204: z.void(), ...problems('CONFLICT') },
        },
      },
      async (request, reply) => {
        await deleteWorkspace(pool, workspaceOf(request));
        return reply.code(204).send();
      },
    );
  };
