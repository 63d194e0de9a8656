import { STATUS_CODES } from 'node:http';
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { type FastifyPluginAsyncZod, jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { scriptTypes } from './script-bundles.ts';

type Schema = Record<string, unknown>;

interface Operation {
  requestBody?: { required?: boolean; content: Record<string, { schema: Schema }> };
  responses: Record<string, { description: string }>;
}

/** The parts of an OpenAPI page that are worked over here. */
interface Page {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

/** For @fastify/swagger, which collects every route that is registered after it; the schemas of the routes make the page. */
export const swaggerOptions: FastifyDynamicSwaggerOptions = {
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
};

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

/** Works over what the generator made, so that people and other generators can read it. */
function finish(page: Page): Page {
  for (const operation of Object.values(page.paths).flatMap((path) => Object.values(path))) {
    describeBody(operation);
    for (const [status, response] of Object.entries(operation.responses)) {
      if (response.description === 'Default Response') response.description = STATUS_CODES[status] ?? '';
    }
  }
  dropUnusedSchemas(page);
  simplify(page);
  return page;
}

function describeBody({ requestBody }: Operation): void {
  if (requestBody === undefined) return;
  if (requestBody.content['application/json']?.schema.default !== undefined) requestBody.required = false;
  // Where a body is a script, the route sees the same as for the JSON form (script-bundles.ts).
  for (const type of scriptTypes) {
    if (type in requestBody.content)
      requestBody.content[type] = { schema: { type: 'string', description: 'The script' } };
  }
}

/** Every named schema is made for requests and for answers; those that no route refers to are only noise. */
function dropUnusedSchemas(page: Page): void {
  const { schemas } = page.components;
  for (let before = -1; before !== Object.keys(schemas).length; ) {
    before = Object.keys(schemas).length;
    const text = JSON.stringify(page);
    for (const name of Object.keys(schemas)) {
      if (!text.includes(`"#/components/schemas/${name}"`)) delete schemas[name];
    }
  }
  // Answers may get more members with time; clients must not count on there being none.
  for (const schema of Object.values(schemas)) delete schema.additionalProperties;
}

/** Takes away what says nothing: the long patterns of formats that have a name, the bounds of whole numbers. */
function simplify(node: unknown): void {
  if (typeof node !== 'object' || node === null) return;
  const schema = node as Schema;
  if (typeof schema.format === 'string') delete schema.pattern;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  for (const child of Object.values(node)) simplify(child);
}
