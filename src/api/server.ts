import type { Socket } from 'node:net';
import swagger from '@fastify/swagger';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import { uuidv7 } from 'uuidv7';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { createAccess } from './access.ts';
import { parseJson } from './body.ts';
import type { ApiContext, ApiDependencies } from './dependencies.ts';
import { executionCommandRoutes } from './execution-commands.ts';
import { executionPolicyRoutes } from './execution-policies.ts';
import { executionRoutes } from './executions.ts';
import { functionExecutionRoutes } from './function-executions.ts';
import { functionRoutes, invokeRoutes } from './functions.ts';
import { healthRoutes } from './health.ts';
import { jobFunctionRoutes } from './job-functions.ts';
import { toJsonText } from './json.ts';
import { machineUserRoutes } from './machine-users.ts';
import { openApiRoute, swaggerOptions } from './openapi.ts';
import { poolRoutes } from './pools.ts';
import { problemOf, problems, refusePacked, toJobcellError } from './problem.ts';
import { startRoutes } from './start.ts';
import { tailordbRoutes } from './tailordb.ts';
import { tokenRoutes } from './tokens.ts';
import { validatorCompiler } from './validation.ts';
import { secretRoutes, vaultRoutes } from './vaults.ts';
import { workflowRoutes } from './workflows.ts';
import { workspaceRoutes } from './workspaces.ts';

/** The longest path parameter, encoded: 128 characters of up to 4 bytes, each byte written as %XX. */
const maxParamLength = 128 * 4 * 3;

/** A request has to arrive within this time, headers and body; long polls are answers and may take longer. */
const requestTimeoutMs = 120_000;

/** The HTTP interface (http-api.md). The caller listens and closes; closing ends long polls with their 202 (D30). */
export function createApi(dependencies: ApiDependencies): FastifyInstance {
  const logger: FastifyBaseLogger = dependencies.logger;
  const app = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => uuidv7(),
    bodyLimit: limits.bodyBytes,
    requestTimeout: requestTimeoutMs,
    routerOptions: { maxParamLength },
    return503OnClosing: false,
    clientErrorHandler: answerClientError,
    frameworkErrors: (error, request, reply) => void sendProblem(error, request, reply),
  });
  const closing = refuseWhileClosing(app);
  const context: ApiContext = { ...dependencies, closing };
  const access = createAccess(dependencies);

  app.setValidatorCompiler(validatorCompiler);
  // Answers are typed by their schemas; their JSON keeps stored values as they are (D33).
  app.setSerializerCompiler(() => toJsonText);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (_request: unknown, body: Buffer) =>
    parseJson(body),
  );
  app.addHook('preParsing', async (request) => refusePacked(request));
  app.decorateRequest('workspace', null);
  app.setErrorHandler((error: Error, request, reply) => sendProblem(error, request, reply));
  app.addHook('onResponse', async (request, reply) => {
    const { method, url } = request;
    request.log.debug({ method, url, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }, 'request');
  });
  const allowedMethods = completeRoutes(app);
  app.setNotFoundHandler((request, reply) => sendProblem(noRoute(request, reply, allowedMethods), request, reply));

  app.register(swagger, swaggerOptions);
  app.register(healthRoutes(context));
  app.register(openApiRoute);
  app.register(workspaceRoutes(context, access), { prefix: '/v1/workspaces' });
  for (const routes of [
    tokenRoutes,
    machineUserRoutes,
    vaultRoutes,
    secretRoutes,
    tailordbRoutes,
    jobFunctionRoutes,
    functionRoutes,
    invokeRoutes,
    functionExecutionRoutes,
    workflowRoutes,
    startRoutes,
    executionRoutes,
    executionCommandRoutes,
    executionPolicyRoutes,
    poolRoutes,
  ]) {
    app.register(routes(context, access), { prefix: '/v1/workspaces/:workspace' });
  }
  return app;
}

/** Refuses requests on open connections once the server stops; the signal ends the long polls under way. */
function refuseWhileClosing(app: FastifyInstance): AbortSignal {
  const controller = new AbortController();
  app.addHook('preClose', async () => controller.abort(new Error('The server stops.')));
  app.addHook('onSend', async (_request, reply) => {
    // An idle connection that stays open would hold the close up for its keep-alive time.
    if (controller.signal.aborted) reply.header('connection', 'close');
  });
  app.addHook('onRequest', async () => {
    if (!controller.signal.aborted) return;
    throw new JobcellError('UNAVAILABLE', 'The server stops; send the request to another one, or again in a moment.');
  });
  return controller.signal;
}

/**
 * Gives every route what all have in common: a query without fields is refused any, and the problems that each can
 * answer with. Answers which methods a path takes.
 */
function completeRoutes(app: FastifyInstance): (path: string) => string[] {
  const routes: { pattern: RegExp; method: string }[] = [];
  app.addHook('onRoute', (route) => {
    const secured = route.url.startsWith('/v1/');
    route.schema ??= {};
    route.schema.querystring ??= z.strictObject({});
    route.schema.response = {
      ...problems('BAD_REQUEST', 'INTERNAL', 'UNAVAILABLE'),
      ...(secured ? problems('UNAUTHORIZED', 'NOT_FOUND') : {}),
      ...(route.schema.body === undefined ? {} : problems('PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE')),
      ...(route.schema.response as object),
    };
    const pattern = new RegExp(`^${route.url.replace(/:\w+/g, '[^/]+')}$`);
    for (const method of [route.method].flat()) routes.push({ pattern, method });
  });
  return (path) => [...new Set(routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method))];
}

function noRoute(
  request: FastifyRequest,
  reply: FastifyReply,
  allowedMethods: (path: string) => string[],
): JobcellError {
  const path = request.url.split('?', 1)[0]!;
  const methods = allowedMethods(path);
  if (methods.length === 0) {
    return new JobcellError('NOT_FOUND', `There is no route ${path}; GET /openapi.json lists all of them.`);
  }
  reply.header('allow', methods.join(', '));
  return new JobcellError(
    'METHOD_NOT_ALLOWED',
    `${path} does not take ${request.method}; it takes ${methods.join(', ')}.`,
  );
}

function sendProblem(error: Error, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const known = toJobcellError(error, request);
  const problem = problemOf(known);
  if (problem.code === 'INTERNAL') request.log.error({ err: error, url: request.url }, 'request failed');
  if (problem.code === 'UNAUTHORIZED') reply.header('www-authenticate', 'Bearer realm="jobcell"');
  // fastify closes the connection under a body that is too large. Many clients are still sending then and would see only
  // that, never the answer; kept open, Node reads and drops the rest, within the request timeout.
  if (problem.code === 'PAYLOAD_TOO_LARGE') reply.removeHeader('connection');
  if (problem.status === 503) reply.header('retry-after', '1');
  return reply.code(problem.status).type('application/problem+json').send(problem);
}

/** Answers what is no HTTP request at all, or one whose head is too large or too slow; fastify never sees those. */
function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  // Nobody is there to read an answer.
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const reasons: Record<string, string> = {
    HPE_HEADER_OVERFLOW: 'Its first line and headers are too large.',
    ERR_HTTP_REQUEST_TIMEOUT: 'It did not arrive in time.',
  };
  const reason = reasons[error.code ?? ''] ?? 'It is no valid HTTP.';
  const problem = problemOf(new JobcellError('BAD_REQUEST', `The request could not be read. ${reason}`));
  const body = toJsonText(problem);
  socket.end(
    `HTTP/1.1 ${problem.status} Bad Request\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
