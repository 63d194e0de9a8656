import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { type FastifyPluginAsyncZod, jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { scriptTypes } from './job-functions.ts';

/** The parts of an OpenAPI page that are worked over here. */
interface Page {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, { schema: unknown }> } }>>;
  components: { schemas: Record<string, unknown> };
}

/** Collects every route that is registered after it; the schemas of the routes make the page. */
export async function collectRoutes(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'jobcell',
        version: '1',
        description:
          'Runs JavaScript job functions in isolated VMs with hard limits, and makes workflows of them durable. Errors are problem documents (RFC 9457) with a `code`.',
      },
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description: "The administrator's token, or a token of the workspace",
          },
        },
      },
      security: [{ bearer: [] }],
    },
    transform: jsonSchemaTransform,
    transformObject: jsonSchemaTransformObject,
  });
}

export const openApiRoute: FastifyPluginAsyncZod = async (app) => {
  let page: Page | undefined;
  app.get(
    '/openapi.json',
    {
      schema: {
        tags: ['Health'],
        security: [],
        operationId: 'getOpenApi',
        summary: 'This page',
        response: { 200: z.looseObject({}) },
      },
    },
    async () => {
      page ??= finish(structuredClone(app.swagger()) as unknown as Page);
      return { ...page };
    },
  );
};

function finish(page: Page): Page {
  // Where a body is a script, its schema is that of the JSON form, which the route sees (job-functions.ts).
  for (const operation of Object.values(page.paths).flatMap((path) => Object.values(path))) {
    for (const type of scriptTypes) {
      const content = operation.requestBody?.content[type];
      if (content !== undefined) content.schema = { type: 'string', description: 'The script' };
    }
  }
  // Every named schema is made for requests and for answers; those that no route refers to are only noise.
  const { schemas } = page.components;
  for (let before = -1; before !== Object.keys(schemas).length; ) {
    before = Object.keys(schemas).length;
    const text = JSON.stringify(page);
    for (const name of Object.keys(schemas)) {
      if (!text.includes(`"#/components/schemas/${name}"`)) delete schemas[name];
    }
  }
  return page;
}
