import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import type { BodyType } from '../sandbox/protocol.ts';
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
import type { Workspace } from '../store/workspaces.ts';
import { type Access, workspaceOf } from './access.ts';
import { decodeUtf8, parseJson } from './body.ts';
import type { ApiContext } from './dependencies.ts';
import { scanJson } from './json-scan.ts';
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

/** What a script bundle is used as. The routes of all kinds are the same. */
export interface ScriptKind {
  type: BodyType;
  /** Segment of the path: `/job-functions/:name`. */
  segment: string;
  /** Of the OpenAPI page: the name of the schema, and in operation ids. */
  id: string;
  tag: string;
  /** In sentences, with a small letter. */
  noun: string;
  deleteNote: string;
}

const scriptSchema = z.object({
  name: z.string(),
  version: z.int().describe('The same content again has the same version'),
  contentHash: z.string().describe('SHA-256 of the script, and of its source map where it has one'),
  size: z.int().describe('Bytes of the script'),
  createdAt: timestamp,
});

const toView = (info: ScriptInfo): z.infer<typeof scriptSchema> => ({
  name: info.name,
  version: info.version,
  contentHash: info.contentHash,
  size: info.size,
  createdAt: toTimestamp(info.createdAt),
});

const params = workspaceParams.extend({ name: jobFunctionName });
const versionQuery = z.strictObject({ version: scriptVersion.optional().describe('The current version by default') });

/** Upload, list, get and delete of one kind of script bundle. */
export const scriptRoutes =
  (kind: ScriptKind) =>
  ({ pool, sandbox }: ApiContext, access: Access): FastifyPluginAsyncZod =>
  async (app) => {
    const { type, segment, id, noun } = kind;
    const tags = [kind.tag];
    const schemaOfKind = scriptSchema.meta({ id });
    const scriptOf = (workspace: Workspace, name: string): ScriptName => ({ workspaceId: workspace.id, type, name });
    app.addHook('onRequest', access.workspace);
    acceptScripts(app);

    app.put(
      `/${segment}/:name`,
      {
        config: {
          tooLarge: () => tooLarge('A script', limits.scriptBytes),
          accepts: [...scriptTypes, 'application/json'],
        },
        schema: {
          tags,
          operationId: `put${id}`,
          summary: `Upload the script of a ${noun}; it is checked in a sandbox first`,
          consumes: ['application/json', ...scriptTypes],
          params,
          body: uploadBody,
          response: {
            200: schemaOfKind,
            ...problems('INVALID_SCRIPT', 'OVERLOADED', 'UNAVAILABLE'),
          },
        },
      },
      async (request) => {
        const script = scriptOf(workspaceOf(request), request.params.name);
        const content = readUpload(request.body);
        // What is stored was checked when it came; only new content has to be.
        const known = await findContent(pool, script, content.contentHash);
        const format = known?.format ?? (await checkScript(sandbox, kind, script.name, content.text));
        return toView(await putScript(pool, { ...script, ...content, format }));
      },
    );

    app.get(
      `/${segment}`,
      {
        schema: {
          tags,
          operationId: `list${id}s`,
          summary: `List ${noun}s in their current versions, the one uploaded last first`,
          params: workspaceParams,
          querystring: listQuery,
          response: { 200: listOf(schemaOfKind) },
        },
      },
      async (request) => {
        const scripts = { workspaceId: workspaceOf(request).id, type };
        const { items, nextCursor } = await listScripts(pool, scripts, request.query);
        return { items: items.map(toView), nextCursor };
      },
    );

    app.get(
      `/${segment}/:name`,
      {
        schema: {
          tags,
          operationId: `get${id}`,
          summary: `Get a ${noun}; old versions stay as long as an execution can use them`,
          params,
          querystring: versionQuery,
          response: { 200: schemaOfKind },
        },
      },
      async (request) => {
        const { name } = request.params;
        const workspace = workspaceOf(request);
        const info = await getScript(pool, scriptOf(workspace, name), request.query.version);
        if (info === null) throw noScript(kind, workspace.name, name, request.query.version);
        return toView(info);
      },
    );

    app.get(
      `/${segment}/:name/script`,
      {
        schema: {
          tags,
          operationId: `get${id}Script`,
          summary: `Get the script of a ${noun}`,
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
        const info = await getScript(pool, scriptOf(workspace, name), request.query.version);
        const script = info && (await loadScript(pool, workspace.id, type, name, info.version));
        if (script === null) throw noScript(kind, workspace.name, name, request.query.version);
        return reply.type('text/javascript; charset=utf-8').send(script.source);
      },
    );

    app.delete(
      `/${segment}/:name`,
      {
        schema: {
          tags,
          operationId: `delete${id}`,
          summary: `Delete a ${noun}; ${kind.deleteNote}`,
          params,
          response: { 204: z.void(), ...problems('CONFLICT') },
        },
      },
      async (request, reply) => {
        const { name } = request.params;
        const workspace = workspaceOf(request);
        if (await deleteScript(pool, scriptOf(workspace, name))) return reply.code(204).send();
        throw noScript(kind, workspace.name, name, undefined);
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
  if (scanJson(text).depth > limits.jsonDepth) return false;
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
async function checkScript(sandbox: Pick<Sandbox, 'check'>, kind: ScriptKind, name: string, source: string) {
  const memoryMb = kind.type === 'JOB' ? limits.jobFunctionMemoryMb : limits.functionMemoryMb;
  const check = await sandbox.check(source, memoryMb);
  if (check.ok) return check.format;
  const { message, line, column } = check;
  throw new JobcellError('INVALID_SCRIPT', `${capitalized(kind.noun)} \`${name}\` was not stored. ${message}`, {
    extra: { line, column },
  });
}

const capitalized = (noun: string) => noun.charAt(0).toUpperCase() + noun.slice(1);

function noScript({ noun }: ScriptKind, workspace: string, name: string, version: number | undefined): JobcellError {
  const what = version === undefined ? `${noun} \`${name}\`` : `version ${version} of ${noun} \`${name}\``;
  return new JobcellError('NOT_FOUND', `There is no ${what} in workspace \`${workspace}\`.`);
}
