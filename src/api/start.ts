import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { limits } from '../limits.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { executionSchema, readExecution } from './execution-views.ts';
import { problems } from './problem.ts';
import { disconnected, resolveInvoker, runInput } from './run-input.ts';
import { resourceName, workspaceParams } from './schemas.ts';
import { valueText, valueTooLarge } from './value-text.ts';

const startBody = z
  .strictObject({
    ...runInput,
    replay: z
      .enum(['auto', 'always'])
      .optional()
      .describe('`always` replays after every step, to find non-determinism'),
  })
  .prefault({});

const startHeaders = z.looseObject({
  'idempotency-key': z
    .string()
    .min(1)
    .max(limits.idempotencyKeyChars)
    .optional()
    .describe('The same key on the same workflow answers the first execution again'),
});

const startQuery = z.strictObject({
  wait: z.coerce
    .number()
    .min(0)
    .max(limits.waitSeconds)
    .optional()
    .describe('Seconds to hold the answer until the execution is in a final status'),
});

const startedSchema = z.object({ executionId: z.uuid() }).meta({ id: 'StartedExecution' });

export const startRoutes =
  ({ pool, engine, closing }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    app.addHook('onRequest', access.workspace);

    app.post(
      '/workflows/:name/start',
      {
        bodyLimit: limits.startBodyBytes,
        config: { tooLarge: valueTooLarge('args') },
        schema: {
          tags: ['Executions'],
          operationId: 'startWorkflow',
          summary: 'Start an execution of a workflow; with `wait`, hold the answer until it is finished',
          params: workspaceParams.extend({ name: resourceName }),
          querystring: startQuery,
          headers: startHeaders,
          body: startBody,
          response: {
            200: executionSchema.describe('The execution is in a final status (only with `wait`)'),
            202: startedSchema,
            ...problems('IDEMPOTENCY_MISMATCH'),
          },
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        const { args, invoker, replay } = request.body;
        const { executionId } = await engine.start({
          workspaceId: workspace.id,
          workflow: request.params.name,
          args: valueText('args', args ?? {}),
          invoker: await resolveInvoker(pool, invoker, workspace),
          replay,
          idempotencyKey: request.headers['idempotency-key'],
        });
        const { wait } = request.query;
        if (wait !== undefined) {
          const signal = AbortSignal.any([closing, disconnected(request, reply)]);
          if (await engine.waitForFinal(workspace.id, executionId, wait * 1_000, signal)) {
            return reply.code(200).send(await readExecution(pool, workspace, executionId));
          }
        }
        reply.header('location', `/v1/workspaces/${workspace.name}/executions/${executionId}`);
        return reply.code(202).send({ executionId });
      },
    );
  };
