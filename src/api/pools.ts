import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { livePools } from '../store/pools.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { workspaceParams } from './schemas.ts';

const poolSchema = z
  .object({
    pool: z
      .string()
      .describe(
        '`workspace` (dispatches), `executions`, `workflow:NAME`, or the execution policy key of the dispatches',
      ),
    policy: z.string().nullable().describe('The execution policy that gives it; null for the others'),
    cap: z.int(),
    inUse: z.int(),
    holders: z.array(z.uuid()).describe('Executions that hold slots of it, oldest first'),
    queued: z.int().describe('Executions that want slots of it and find no room'),
  })
  .meta({ id: 'Pool' });

export const poolRoutes =
  ({ pool }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    app.addHook('onRequest', access.workspace);
    app.get(
      '/pools',
      {
        schema: {
          tags: ['Execution policies'],
          operationId: 'listPools',
          summary: "List the workspace's pools, and those of workflows and policies that are held or waited for",
          params: workspaceParams,
          response: { 200: z.object({ items: z.array(poolSchema) }) },
        },
      },
      async (request) => ({ items: await livePools(pool, workspaceOf(request).id) }),
    );
  };
