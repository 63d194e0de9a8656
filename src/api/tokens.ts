import { randomBytes } from 'node:crypto';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { createToken, deleteToken, listTokens, type Token } from '../store/tokens.ts';
import { type Access, hashToken, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { listOf, listQuery, timestamp, toTimestamp, workspaceParams } from './schemas.ts';

const tokenSchema = z.object({ id: z.uuid(), name: z.string(), createdAt: timestamp }).meta({ id: 'Token' });

const toView = ({ id, name, createdAt }: Token): z.infer<typeof tokenSchema> => ({
  id,
  name,
  createdAt: toTimestamp(createdAt),
});

/** 256 random bits behind a prefix that people and secret scanners recognise. */
const makeToken = (): string => `jobcell_${randomBytes(32).toString('base64url')}`;

export const tokenRoutes =
  ({ pool }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Tokens'];
    app.addHook('onRequest', access.admin);
    app.addHook('onRequest', access.workspace);

    app.post(
      '/tokens',
      {
        schema: {
          tags,
          operationId: 'createToken',
          summary: 'Create a token of the workspace; its secret is shown only in this answer',
          params: workspaceParams,
          body: z.strictObject({
            name: z
              .string()
              .regex(/^[^\p{Cc}\p{Cs}]{1,128}$/u, 'must be 1 to 128 characters without control characters')
              .describe('What the token is for'),
          }),
          response: { 201: tokenSchema.extend({ token: z.string() }) },
        },
      },
      async (request, reply) => {
        const token = makeToken();
        const stored = await createToken(pool, workspaceOf(request).id, request.body.name, hashToken(token));
        return reply.code(201).send({ ...toView(stored), token });
      },
    );

    app.get(
      '/tokens',
      {
        schema: {
          tags,
          operationId: 'listTokens',
          summary: 'List the tokens of the workspace, without their secrets',
          params: workspaceParams,
          querystring: listQuery,
          response: { 200: listOf(tokenSchema) },
        },
      },
      async (request) => {
        const { items, nextCursor } = await listTokens(pool, workspaceOf(request).id, request.query);
        return { items: items.map(toView), nextCursor };
      },
    );

    app.delete(
      '/tokens/:tokenId',
      {
        schema: {
          tags,
          operationId: 'deleteToken',
          summary: 'Delete a token; it opens nothing from then on',
          params: workspaceParams.extend({ tokenId: z.string() }),
          response: { 204: z.void() },
        },
      },
      async (request, reply) => {
        const { name, id } = workspaceOf(request);
        const { tokenId } = request.params;
        if (await deleteToken(pool, id, tokenId)) return reply.code(204).send();
        throw new JobcellError('NOT_FOUND', `There is no token \`${tokenId}\` in workspace \`${name}\`.`);
      },
    );
  };
