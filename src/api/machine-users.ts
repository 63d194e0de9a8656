import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import {
  deleteMachineUser,
  getMachineUser,
  listMachineUsers,
  type MachineUser,
  putMachineUser,
} from '../store/machine-users.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { invokerAttributes } from './run-input.ts';
import { listOf, listQuery, ownName, timestamp, toTimestamp, workspaceParams } from './schemas.ts';

const machineUserSchema = z
  .object({
    id: z.uuid().describe('What scripts see as the id of the invoker; stays when the machine user is changed'),
    namespace: z.string(),
    name: z.string(),
    attributes: z.array(z.string()),
    attributeMap: z.record(z.string(), z.unknown()),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'MachineUser' });

const toView = (user: MachineUser): z.infer<typeof machineUserSchema> => ({
  ...user,
  createdAt: toTimestamp(user.createdAt),
  updatedAt: toTimestamp(user.updatedAt),
});

const params = workspaceParams.extend({ namespace: ownName, name: ownName });

const noMachineUser = (workspace: string, namespace: string, name: string): JobcellError =>
  new JobcellError(
    'NOT_FOUND',
    `There is no machine user \`${name}\` in the namespace \`${namespace}\` of workspace \`${workspace}\`.`,
  );

export const machineUserRoutes =
  ({ pool }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Machine users'];
    const path = '/machine-users/:namespace/:name';
    app.addHook('onRequest', access.workspace);

    app.put(
      path,
      {
        schema: {
          tags,
          operationId: 'putMachineUser',
          summary: 'Create a machine user, or replace its attributes; what was started before keeps the ones it had',
          params,
          body: z.strictObject(invokerAttributes).prefault({}),
          response: { 200: machineUserSchema },
        },
      },
      async (request) => {
        const { namespace, name } = request.params;
        return toView(await putMachineUser(pool, workspaceOf(request).id, { namespace, name, ...request.body }));
      },
    );

    app.get(
      '/machine-users',
      {
        schema: {
          tags,
          operationId: 'listMachineUsers',
          summary: 'List machine users',
          params: workspaceParams,
          querystring: listQuery.extend({ namespace: ownName.optional() }),
          response: { 200: listOf(machineUserSchema) },
        },
      },
      async (request) => {
        const { items, nextCursor } = await listMachineUsers(pool, workspaceOf(request).id, request.query);
        return { items: items.map(toView), nextCursor };
      },
    );

    app.get(
      path,
      {
        schema: {
          tags,
          operationId: 'getMachineUser',
          summary: 'Get a machine user',
          params,
          response: { 200: machineUserSchema },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const { namespace, name } = request.params;
        const user = await getMachineUser(pool, workspace.id, namespace, name);
        if (user === null) throw noMachineUser(workspace.name, namespace, name);
        return toView(user);
      },
    );

    app.delete(
      path,
      {
        schema: {
          tags,
          operationId: 'deleteMachineUser',
          summary: 'Delete a machine user; what was started as it goes on',
          params,
          response: { 204: z.void() },
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        const { namespace, name } = request.params;
        if (await deleteMachineUser(pool, workspace.id, namespace, name)) return reply.code(204).send();
        throw noMachineUser(workspace.name, namespace, name);
      },
    );
  };
