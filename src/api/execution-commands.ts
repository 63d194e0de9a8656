import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { limits } from '../limits.ts';
import { isUuid } from '../store/cursor.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { noExecution } from './execution-views.ts';
import { problems } from './problem.ts';
import { resourceName, workspaceParams } from './schemas.ts';
import { valueText, valueTooLarge } from './value-text.ts';

const params = workspaceParams.extend({ executionId: z.string() });
const accepted = z.object({ executionId: z.uuid() }).meta({ id: 'AcceptedExecution' });

const resumeBody = z
  .strictObject({
    code: z
      .enum(['latest', 'pinned'])
      .default('latest')
      .describe('Which versions run from here on: the newest, or those the execution was started with'),
    from: z
      .string()
      .min(1)
      .optional()
      .describe('Path of a recorded call: it and all later calls of the bodies above it are forgotten and made again'),
  })
  .prefault({});

const resolveBody = z
  .strictObject({ result: z.unknown().describe('What `wait` returns: any JSON value. Nothing is null').optional() })
  .prefault({});

/** What a person does to an execution: resume it, cancel it, answer what it waits for. */
export const executionCommandRoutes =
  ({ engine }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Executions'];
    app.addHook('onRequest', access.workspace);
    // What is no id is the id of nothing.
    app.addHook('preHandler', async (request) => {
      const { executionId } = request.params as z.infer<typeof params>;
      if (!isUuid(executionId)) throw noExecution(workspaceOf(request), executionId);
    });

    app.post(
      '/executions/:executionId/resume',
      {
        schema: {
          tags,
          operationId: 'resumeExecution',
          summary: 'Resume a FAILED, CANCELED or PENDING_RETRY execution from its point of failure',
          params,
          body: resumeBody,
          response: { 202: accepted, ...problems('NOT_FOUND', 'CONFLICT') },
        },
      },
      async (request, reply) => {
        const { executionId } = request.params;
        const { code, from } = request.body;
        await engine.resume({ workspaceId: workspaceOf(request).id, executionId, code, from });
        return reply.code(202).send({ executionId });
      },
    );

    app.post(
      '/executions/:executionId/cancel',
      {
        schema: {
          tags,
          operationId: 'cancelExecution',
          summary: 'Cancel an execution that is not finished; one that runs is stopped within 2 s',
          params,
          body: z.strictObject({}).optional(),
          response: { 202: accepted, ...problems('NOT_FOUND', 'CONFLICT') },
        },
      },
      async (request, reply) => {
        const { executionId } = request.params;
        await engine.cancel(workspaceOf(request).id, executionId);
        return reply.code(202).send({ executionId });
      },
    );

    app.post(
      '/executions/:executionId/waits/:key/resolve',
      {
        bodyLimit: limits.startBodyBytes,
        config: { tooLarge: valueTooLarge('result') },
        schema: {
          tags,
          operationId: 'resolveWait',
          summary: 'Give an execution what its `wait` on a key waits for',
          params: params.extend({ key: resourceName }),
          body: resolveBody,
          response: { 200: accepted, ...problems('NOT_WAITING', 'ALREADY_RESOLVED') },
        },
      },
      async (request) => {
        const { executionId, key } = request.params;
        const result = valueText('result', request.body.result ?? null);
        await engine.resolveWait({ workspaceId: workspaceOf(request).id, executionId, key }, result);
        return { executionId };
      },
    );
  };
