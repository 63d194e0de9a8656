import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import type { ApiContext } from './dependencies.ts';

/** Whether the process lives, and whether it can serve. No token needed. */
export const healthRoutes =
  ({ ready }: ApiContext): FastifyPluginAsyncZod =>
  async (app) => {
    const common = { tags: ['Health'], security: [] };

    app.get(
      '/healthz',
      {
        schema: {
          ...common,
          operationId: 'getHealth',
          summary: 'The server process is alive',
          response: { 200: z.object({ status: z.literal('ok') }) },
        },
      },
      async () => ({ status: 'ok' as const }),
    );

    app.get(
      '/readyz',
      {
        schema: {
          ...common,
          operationId: 'getReadiness',
          summary: 'The database is reachable and migrated, and a real isolate has run',
          response: { 200: z.object({ status: z.literal('ready') }) },
        },
      },
      async () => {
        const state = await ready();
        if (!state.ok) throw new JobcellError('UNAVAILABLE', `The server is not ready: ${state.reason}.`);
        return { status: 'ready' as const };
      },
    );
  };
