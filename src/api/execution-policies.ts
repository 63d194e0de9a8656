import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { executionPolicyKeyRule } from '../sandbox/call-grammar.ts';
import {
  deletePolicy,
  getPolicy,
  listPolicies,
  matchTypes,
  type Policy,
  type PolicyDefinition,
  putPolicy,
} from '../store/policies.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { problems } from './problem.ts';
import { listOf, listQuery, timestamp, toTimestamp, workspaceParams } from './schemas.ts';
import { concurrencyPolicySchema } from './workflows.ts';

/** behaviour.md 4: as workflows, and dots too. A name is a key unless another one is given. */
const policyName = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
    'must be 3 to 63 characters of a-z, 0-9, - and ., and begin and end with a letter or digit',
  );

/** behaviour.md 4, as a policy declares it: `*` behind it is the written form of a prefix. */
const declaredKey = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_:.-]{0,62}[a-z0-9*]$/, `${executionPolicyKeyRule}, or with * as a prefix`);

const withoutStar = (key: string): string => (key.endsWith('*') ? key.slice(0, -1) : key);

const definitionSchema = z
  .strictObject({
    name: z.string().optional().describe('The name in the path, or left out'),
    key: declaredKey.optional().describe('The key, or the prefix of keys; the name by default. It cannot be changed'),
    matchType: z
      .enum(matchTypes)
      .default('exact')
      .describe('prefix: every key that starts with it, each with a pool of its own'),
    concurrencyPolicy: concurrencyPolicySchema
      .nullable()
      .default(null)
      .describe(`Dispatches at once in each pool; ${limits.keyDispatches} without it`),
  })
  .refine((policy) => policy.matchType === 'prefix' || !policy.key?.endsWith('*'), {
    error: 'ends with `*`, the form of a prefix; give `matchType` as prefix, or leave the `*` out',
    path: ['key'],
  });

const policySchema = z
  .object({
    name: z.string(),
    key: z.string(),
    matchType: z.enum(matchTypes),
    concurrencyPolicy: concurrencyPolicySchema.nullable(),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'ExecutionPolicy' });

const toView = (policy: Policy): z.infer<typeof policySchema> => ({
  ...policy,
  createdAt: toTimestamp(policy.createdAt),
  updatedAt: toTimestamp(policy.updatedAt),
});

const params = workspaceParams.extend({ name: policyName });

const noPolicy = (workspace: string, name: string): JobcellError =>
  new JobcellError('NOT_FOUND', `There is no execution policy \`${name}\` in workspace \`${workspace}\`.`);

/** What is stored for a request. @throws JobcellError BAD_REQUEST when it names another policy, or a name that is no key. */
function toDefinition(name: string, { key, ...body }: z.infer<typeof definitionSchema>): PolicyDefinition {
  if (body.name !== undefined && body.name !== name) {
    throw new JobcellError('BAD_REQUEST', `\`name\` must be \`${name}\`, as in the path, or left out.`, {
      errors: [{ path: 'name', message: `must be \`${name}\`, as in the path, or left out` }],
    });
  }
  const { matchType, concurrencyPolicy } = body;
  return { key: key === undefined ? undefined : withoutStar(key), matchType, concurrencyPolicy };
}

export const executionPolicyRoutes =
  ({ pool }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Execution policies'];
    app.addHook('onRequest', access.workspace);

    app.put(
      '/execution-policies/:name',
      {
        schema: {
          tags,
          operationId: 'putExecutionPolicy',
          summary: 'Declare an execution policy, or change its cap, also while runs go on',
          params,
          body: definitionSchema,
          response: { 200: policySchema, ...problems('CONFLICT') },
        },
      },
      async (request) => {
        const { name } = request.params;
        return toView(await putPolicy(pool, workspaceOf(request), name, toDefinition(name, request.body)));
      },
    );

    app.get(
      '/execution-policies',
      {
        schema: {
          tags,
          operationId: 'listExecutionPolicies',
          summary: 'List execution policies',
          params: workspaceParams,
          querystring: listQuery,
          response: { 200: listOf(policySchema) },
        },
      },
      async (request) => {
        const { items, nextCursor } = await listPolicies(pool, workspaceOf(request).id, request.query);
        return { items: items.map(toView), nextCursor };
      },
    );

    app.get(
      '/execution-policies/:name',
      {
        schema: {
          tags,
          operationId: 'getExecutionPolicy',
          summary: 'Get an execution policy',
          params,
          response: { 200: policySchema },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const policy = await getPolicy(pool, workspace.id, request.params.name);
        if (policy === null) throw noPolicy(workspace.name, request.params.name);
        return toView(policy);
      },
    );

    app.delete(
      '/execution-policies/:name',
      {
        schema: {
          tags,
          operationId: 'deleteExecutionPolicy',
          summary: 'Delete an execution policy; what runs under it goes on, what waits for it is tried again',
          params,
          response: { 204: z.void() },
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        if (await deletePolicy(pool, workspace.id, request.params.name)) return reply.code(204).send();
        throw noPolicy(workspace.name, request.params.name);
      },
    );
  };
