import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import {
  deleteScript,
  findContent,
  getScript,
  listScripts,
  loadScript,
  putScript,
  type ScriptInfo,
  type ScriptName,
} from '../store/scripts.ts';
import { type Access, workspaceOf } from './access.ts';
import { decodeUtf8, parseJson } from './body.ts';
import type { ApiContext } from './dependencies.ts';
import { problems, tooLarge } from './problem.ts';
import {
  jobFunctionName,
  listOf,
  listQuery,
  scriptVersion,
  timestamp,
  toTimestamp,
  workspaceParams,
} from './schemas.ts';

export const scriptTypes = ['text/javascript', 'application/javascript'];

const uploadBody = z.strictObject({
  script: z.string(),
  sourceMap: z
    .union([z.string(), z.looseObject({})], 'must be a source map: an object, or the JSON text of one')
    .optional(),
});

const jobFunctionSchema = z
  .object({
    name: z.string(),
    version: z.int().describe('The same content again has the same version'),
    contentHash: z.string().describe('SHA-256 of the script, and of its source map where it has one'),
    size: z.int().describe('Bytes of the script'),
    createdAt: timestamp,
  })
  .meta({ id: 'JobFunction' });

const toView = (info: ScriptInfo): z.infer<typeof jobFunctionSchema> => ({
  name: info.name,
  version: info.version,
  contentHash: info.contentHash,
  size: info.size,
  createdAt: toTimestamp(info.createdAt),
});

const params = workspaceParams.extend({ name: jobFunctionName });
const versionQuery = z.strictObject({ version: scriptVersion.optional().describe('The current version by default') });

export const jobFunctionRoutes =
  ({ pool, sandbox }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const tags = ['Job functions'];
    app.addHook('onRequest', access.workspace);
    acceptScripts(app);

    app.put(
      '/job-functions/:name',
      {
        config: {
          tooLarge: () => tooLarge('A script', limits.scriptBytes),
          accepts: [...scriptTypes, 'application/json'],
        },
        schema: {
          tags,
          operationId: 'putJobFunction',
          summary: 'Upload the script of a job function; it is checked in a sandbox first',
          consumes: ['application/json', ...scriptTypes],
          params,
          body: uploadBody,
          response: {
            200: jobFunctionSchema,
            ...problems('INVALID_SCRIPT'),
          },
        },
      },
      async (request) => {
        const script: ScriptName = { workspaceId: workspaceOf(request).id, type: 'JOB', name: request.params.name };
        const content = readUpload(request.body);
        // What is stored was checked when it came; only new content has to be.
        const known = await findContent(pool, script, content.contentHash);
        const format = known?.format ?? (await checkScript(sandbox, script.name, content.text));
        return toView(await putScript(pool, { ...script, ...content, format }));
      },
    );

    app.get(
      '/job-functions',
      {
        schema: {
          tags,
          operationId: 'listJobFunctions',
          summary: 'List job functions in their current versions, the one uploaded last first',
          params: workspaceParams,
          querystring: listQuery,
          response: { 200: listOf(jobFunctionSchema) },
        },
      },
      async (request) => {
        const scripts = { workspaceId: workspaceOf(request).id, type: 'JOB' as const };
        const { items, nextCursor } = await listScripts(pool, scripts, request.query);
        return { items: items.map(toView), nextCursor };
      },
    );

    app.get(
      '/job-functions/:name',
      {
        schema: {
          tags,
          operationId: 'getJobFunction',
          summary: 'Get a job function; old versions stay as long as an execution can use them',
          params,
          querystring: versionQuery,
          response: { 200: jobFunctionSchema },
        },
      },
      async (request) => {
        const { name } = request.params;
        const workspace = workspaceOf(request);
        const info = await getScript(pool, { workspaceId: workspace.id, type: 'JOB', name }, request.query.version);
        if (info === null) throw noJobFunction(workspace.name, name, request.query.version);
        return toView(info);
      },
    );

    app.get(
      '/job-functions/:name/script',
      {
        schema: {
          tags,
          operationId: 'getJobFunctionScript',
          summary: 'Get the script of a job function',
          params,
          querystring: versionQuery,
          response: {
            200: { description: 'The script', content: { 'text/javascript': { schema: z.string() } } },
          },
        },
      },
      async (request, reply) => {
        const { name } = request.params;
        const workspace = workspaceOf(request);
        const info = await getScript(pool, { workspaceId: workspace.id, type: 'JOB', name }, request.query.version);
        const script = info && (await loadScript(pool, workspace.id, 'JOB', name, info.version));
        if (script === null) throw noJobFunction(workspace.name, name, request.query.version);
        return reply.type('text/javascript; charset=utf-8').send(script.source);
      },
    );

    app.delete(
      '/job-functions/:name',
      {
        schema: {
          tags,
          operationId: 'deleteJobFunction',
          summary: 'Delete a job function; running executions keep the versions they started with',
          params,
          response: { 204: z.void(), ...problems('CONFLICT') },
        },
      },
      async (request, reply) => {
        const { name } = request.params;
        const workspace = workspaceOf(request);
        if (await deleteScript(pool, { workspaceId: workspace.id, type: 'JOB', name })) return reply.code(204).send();
        throw noJobFunction(workspace.name, name, undefined);
      },
    );
  };

/** Makes a script in the body the same as JSON with a script in it, and lets the JSON form be long enough for one. */
function acceptScripts(app: FastifyInstance): void {
  const options = { parseAs: 'buffer', bodyLimit: limits.scriptBytes } as const;
  app.addContentTypeParser(scriptTypes, options, async (_request: unknown, body: Buffer) => ({
    script: decodeUtf8(body, 'script'),
  }));
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser(
    'application/json',
    { ...options, bodyLimit: limits.uploadBodyBytes },
    async (_request: unknown, body: Buffer) => parseJson(body),
  );
}

/** @throws JobcellError PAYLOAD_TOO_LARGE, BAD_REQUEST */
function readUpload({ script, sourceMap }: z.infer<typeof uploadBody>) {
  const map = typeof sourceMap === 'object' ? JSON.stringify(sourceMap) : sourceMap;
  if (!script.isWellFormed()) throw badField('script', 'holds half of a surrogate pair, which has no UTF-8 form');
  if (map !== undefined && !isJsonObject(map)) throw badField('sourceMap', 'must be the JSON text of an object');
  const source = Buffer.from(script);
  const mapBytes = map === undefined ? null : Buffer.from(map);
  if (source.length > limits.scriptBytes) throw tooLarge('A script', limits.scriptBytes);
  if ((mapBytes?.length ?? 0) > limits.scriptBytes) throw tooLarge('A source map', limits.scriptBytes);
  const hash = createHash('sha256').update(source);
  if (mapBytes !== null) hash.update('\0').update(mapBytes);
  return { text: script, source, sourceMap: mapBytes, contentHash: hash.digest('hex') };
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

const badField = (path: string, message: string): JobcellError =>
  new JobcellError('BAD_REQUEST', `The body is not valid: \`${path}\` ${message}.`, { errors: [{ path, message }] });

/** @throws JobcellError INVALID_SCRIPT */
async function checkScript(sandbox: Pick<Sandbox, 'check'>, name: string, source: string) {
  const check = await sandbox.check(source);
  if (check.ok) return check.format;
  const { message, line, column } = check;
  throw new JobcellError('INVALID_SCRIPT', `Job function \`${name}\` was not stored. ${message}`, {
    extra: { line, column },
  });
}

function noJobFunction(workspace: string, name: string, version: number | undefined): JobcellError {
  const what = version === undefined ? `job function \`${name}\`` : `version ${version} of job function \`${name}\``;
  return new JobcellError('NOT_FOUND', `There is no ${what} in workspace \`${workspace}\`.`);
}
