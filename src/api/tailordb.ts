import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import type { Namespace } from '../store/tailordb/names.ts';
import { getNamespace, listNamespaces } from '../store/tailordb/namespaces.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { problemSchema, problems } from './problem.ts';
import { listOf, listQuery, ownName, timestamp, toTimestamp, workspaceParams } from './schemas.ts';

const namespaceSchema = z.object({ name: z.string(), createdAt: timestamp }).meta({ id: 'TailordbNamespace' });

const toView = ({ name, createdAt }: Namespace): z.infer<typeof namespaceSchema> => ({
  name,
  createdAt: toTimestamp(createdAt),
});

const params = workspaceParams.extend({ namespace: ownName });

const noNamespace = (workspace: string, namespace: string): JobcellError =>
  new JobcellError('NOT_FOUND', `There is no TailorDB namespace \`${namespace}\` in workspace \`${workspace}\`.`);

const sqlProblem = problemSchema
  .extend({
    sqlState: z.string().optional().describe("PostgreSQL's code of the error"),
    position: z.int().nullable().optional().describe('The character of the SQL where it is, from 1'),
    hint: z.string().optional(),
    sqlDetail: z.string().optional(),
  })
  .meta({ id: 'SqlProblem' });

export const tailordbRoutes =
  ({ pool, tailordb }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['TailorDB'];
    app.addHook('onRequest', access.workspace);

    app.put(
      '/tailordb/:namespace',
      {
        schema: {
          tags,
          operationId: 'putTailordbNamespace',
          summary:
            'Create a namespace: a schema of its own that scripts query; one that there is is mended, with its data kept',
          params,
          body: z.strictObject({}).prefault({}),
          response: { 200: namespaceSchema, ...problems('CONFLICT', 'NO_SECRET_KEY', 'DATABASE_PERMISSION') },
        },
      },
      async (request) => toView(await tailordb.put(workspaceOf(request).id, request.params.namespace)),
    );

    app.get(
      '/tailordb',
      {
        schema: {
          tags,
          operationId: 'listTailordbNamespaces',
          summary: 'List namespaces',
          params: workspaceParams,
          querystring: listQuery,
          response: { 200: listOf(namespaceSchema) },
        },
      },
      async (request) => {
        const { items, nextCursor } = await listNamespaces(pool, workspaceOf(request).id, request.query);
        return { items: items.map(toView), nextCursor };
      },
    );

    app.get(
      '/tailordb/:namespace',
      {
        schema: {
          tags,
          operationId: 'getTailordbNamespace',
          summary: 'Get a namespace',
          params,
          response: { 200: namespaceSchema },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const namespace = await getNamespace(pool, workspace.id, request.params.namespace);
        if (namespace === null) throw noNamespace(workspace.name, request.params.namespace);
        return toView(namespace);
      },
    );

    app.delete(
      '/tailordb/:namespace',
      {
        schema: {
          tags,
          operationId: 'deleteTailordbNamespace',
          summary: 'Delete a namespace with every table in it; connections to it are ended',
          params,
          response: { 204: z.void() },
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        if (await tailordb.remove(workspace.id, request.params.namespace)) return reply.code(204).send();
        throw noNamespace(workspace.name, request.params.namespace);
      },
    );

    app.post(
      '/tailordb/:namespace/sql',
      {
        onRequest: access.admin,
        schema: {
          tags,
          operationId: 'runTailordbSql',
          summary:
            'Run SQL as the owner of the namespace, to create and change tables: all of it, or nothing. For the administrator',
          params,
          body: z.strictObject({
            sql: z
              .string()
              .min(1)
              .refine((text) => text.isWellFormed() && !text.includes('\0'), {
                error: 'holds U+0000 or half of a surrogate pair, which PostgreSQL cannot take',
              })
              .describe('One or more statements'),
          }),
          response: {
            200: z.object({
              results: z.array(z.object({ command: z.string(), rowCount: z.int() })).describe('Of each statement'),
            }),
            422: {
              description: '`SQL_ERROR`: PostgreSQL refused the SQL',
              content: { 'application/problem+json': { schema: sqlProblem } },
            },
            ...problems('NO_SECRET_KEY'),
          },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const { namespace } = request.params;
        const results = await tailordb.migrate(workspace.id, namespace, request.body.sql);
        if (results === null) throw noNamespace(workspace.name, namespace);
        return { results };
      },
    );
  };
