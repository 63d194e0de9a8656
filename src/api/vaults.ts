import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { deleteSecret, getSecret, listSecrets, type Secret } from '../store/secrets.ts';
import { deleteVault, getVault, listVaults, type Vault } from '../store/vaults.ts';
import { type Access, workspaceOf } from './access.ts';
import type { ApiContext } from './dependencies.ts';
import { problems } from './problem.ts';
import { listOf, listQuery, ownName, timestamp, toTimestamp, workspaceParams } from './schemas.ts';

const vaultSchema = z.object({ name: z.string(), createdAt: timestamp }).meta({ id: 'Vault' });

const toVaultView = ({ name, createdAt }: Vault): z.infer<typeof vaultSchema> => ({
  name,
  createdAt: toTimestamp(createdAt),
});

/** Values are written and never read over HTTP. */
const secretSchema = z.object({ name: z.string(), createdAt: timestamp, updatedAt: timestamp }).meta({ id: 'Secret' });

const toSecretView = ({ name, createdAt, updatedAt }: Secret): z.infer<typeof secretSchema> => ({
  name,
  createdAt: toTimestamp(createdAt),
  updatedAt: toTimestamp(updatedAt),
});

const vaultParams = workspaceParams.extend({ vault: ownName });
const secretParams = vaultParams.extend({ name: ownName });

const noVault = (workspace: string, vault: string): JobcellError =>
  new JobcellError('NOT_FOUND', `There is no vault \`${vault}\` in workspace \`${workspace}\`.`);
const noSecret = (vault: string, name: string): JobcellError =>
  new JobcellError('NOT_FOUND', `There is no secret \`${name}\` in the vault \`${vault}\`.`);

export const vaultRoutes =
  ({ pool, secrets }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Secrets'];
    app.addHook('onRequest', access.workspace);

    app.put(
      '/vaults/:vault',
      {
        schema: {
          tags,
          operationId: 'putVault',
          summary: 'Create a vault; one that there is stays as it is',
          params: vaultParams,
          body: z.strictObject({}).prefault({}),
          response: { 200: vaultSchema, ...problems('NO_SECRET_KEY') },
        },
      },
      async (request) => toVaultView(await secrets.putVault(workspaceOf(request).id, request.params.vault)),
    );

    app.get(
      '/vaults',
      {
        schema: {
          tags,
          operationId: 'listVaults',
          summary: 'List vaults',
          params: workspaceParams,
          querystring: listQuery,
          response: { 200: listOf(vaultSchema) },
        },
      },
      async (request) => {
        const { items, nextCursor } = await listVaults(pool, workspaceOf(request).id, request.query);
        return { items: items.map(toVaultView), nextCursor };
      },
    );

    app.get(
      '/vaults/:vault',
      {
        schema: {
          tags,
          operationId: 'getVault',
          summary: 'Get a vault',
          params: vaultParams,
          response: { 200: vaultSchema },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const vault = await getVault(pool, workspace.id, request.params.vault);
        if (vault === null) throw noVault(workspace.name, request.params.vault);
        return toVaultView(vault);
      },
    );

    app.delete(
      '/vaults/:vault',
      {
        schema: {
          tags,
          operationId: 'deleteVault',
          summary: 'Delete a vault and every secret in it',
          params: vaultParams,
          response: { 204: z.void() },
        },
      },
      async (request, reply) => {
        const workspace = workspaceOf(request);
        if (await deleteVault(pool, workspace.id, request.params.vault)) return reply.code(204).send();
        throw noVault(workspace.name, request.params.vault);
      },
    );
  };

export const secretRoutes =
  ({ pool, secrets }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Secrets'];
    const path = '/vaults/:vault/secrets/:name';
    app.addHook('onRequest', access.workspace);

    app.put(
      path,
      {
        schema: {
          tags,
          operationId: 'putSecret',
          summary: 'Set a secret. Its value is stored encrypted, and only scripts read it',
          params: secretParams,
          body: z.strictObject({
            value: z
              .string()
              .min(1)
              .refine((text) => text.isWellFormed(), {
                error: 'holds half of a surrogate pair, which has no UTF-8 form',
              })
              .refine((text) => Buffer.byteLength(text) <= limits.secretBytes, {
                error: `must have at most ${limits.secretBytes / 1024} KiB`,
              }),
          }),
          response: { 200: secretSchema, ...problems('NO_SECRET_KEY') },
        },
      },
      async (request) => {
        const workspace = workspaceOf(request);
        const { vault, name } = request.params;
        const secret = await secrets.put({ workspaceId: workspace.id, vault, name }, request.body.value);
        if (secret === null) throw noVault(workspace.name, vault);
        return toSecretView(secret);
      },
    );

    app.get(
      '/vaults/:vault/secrets',
      {
        schema: {
          tags,
          operationId: 'listSecrets',
          summary: 'List the secrets of a vault, without their values',
          params: vaultParams,
          querystring: listQuery,
          response: { 200: listOf(secretSchema) },
        },
      },
      async (request) => {
        const { id: workspaceId, name } = workspaceOf(request);
        const { vault } = request.params;
        if ((await getVault(pool, workspaceId, vault)) === null) throw noVault(name, vault);
        const { items, nextCursor } = await listSecrets(pool, { workspaceId, vault }, request.query);
        return { items: items.map(toSecretView), nextCursor };
      },
    );

    app.get(
      path,
      {
        schema: {
          tags,
          operationId: 'getSecret',
          summary: 'Look whether there is a secret, and since when; its value is not told',
          params: secretParams,
          response: { 200: secretSchema },
        },
      },
      async (request) => {
        const { vault, name } = request.params;
        const secret = await getSecret(pool, { workspaceId: workspaceOf(request).id, vault, name });
        if (secret === null) throw noSecret(vault, name);
        return toSecretView(secret);
      },
    );

    app.delete(
      path,
      {
        schema: {
          tags,
          operationId: 'deleteSecret',
          summary: 'Delete a secret',
          params: secretParams,
          response: { 204: z.void() },
        },
      },
      async (request, reply) => {
        const { vault, name } = request.params;
        if (await deleteSecret(pool, { workspaceId: workspaceOf(request).id, vault, name })) {
          return reply.code(204).send();
        }
        throw noSecret(vault, name);
      },
    );
  };
