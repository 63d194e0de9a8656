import type { FastifyError, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type ErrorCode, errorTable, JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import { isConnectionError } from '../store/connection-errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The answer to a body above the route's limit. */
    tooLarge?: () => JobcellError;
    /** Content types of the route's body. */
    accepts?: string[];
  }
}

/** Codes that an HTTP answer can have; the others only stand in an execution's `error`. */
export type HttpErrorCode = {
  [Code in ErrorCode]: (typeof errorTable)[Code] extends { status: number } ? Code : never;
}[ErrorCode];

const isHttpCode = (code: ErrorCode): code is HttpErrorCode => 'status' in errorTable[code];
const httpCodes = (Object.keys(errorTable) as ErrorCode[]).filter(isHttpCode);

const fieldErrorSchema = z.object({
  path: z.string().describe('The field, in dots: `concurrencyPolicy.maxConcurrentExecutions`'),
  message: z.string(),
});

/** An error's answer (RFC 9457). Some codes have members of their own. */
export const problemSchema = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.enum(httpCodes),
    detail: z.string().describe('What happened, to what, and what to do'),
    errors: z.array(fieldErrorSchema).optional(),
    line: z.int().nullable().optional().describe('INVALID_SCRIPT: where in the script'),
    column: z.int().nullable().optional(),
  })
  .meta({ id: 'Problem' });

type Problem = z.infer<typeof problemSchema>;

interface ProblemResponse {
  description: string;
  content: { 'application/problem+json': { schema: typeof problemSchema } };
}

/** The `response` entries of a route for the errors it can answer with; those that every route has come by themselves. */
export function problems(...codes: HttpErrorCode[]): Record<number, ProblemResponse> {
  const content = { 'application/problem+json': { schema: problemSchema } };
  const byStatus = Map.groupBy(codes, (code) => errorTable[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, same]) => [
      status,
      { description: same.map((code) => `\`${code}\`: ${errorTable[code].title}`).join('; '), content },
    ]),
  );
}

export function problemOf(error: JobcellError): Problem {
  // A code without a status of its own says what became of an execution; thrown at a request, it is a conflict.
  const entry: { status?: number; title: string } = errorTable[error.code];
  const code = isHttpCode(error.code) ? error.code : 'CONFLICT';
  return {
    type: `urn:jobcell:error:${code}`,
    title: entry.title,
    status: entry.status ?? errorTable.CONFLICT.status,
    code,
    detail: error.message,
    ...(error.errors === undefined ? {} : { errors: error.errors }),
    ...error.extra,
  };
}

const mib = (bytes: number) => `${bytes / 1024 / 1024} MiB`;

export const tooLarge = (what: string, limit: number): JobcellError =>
  new JobcellError('PAYLOAD_TOO_LARGE', `${what} may have at most ${mib(limit)} (${limit} bytes).`);

/** Any error that reached fastify's handler, as one of ours. What is nobody's fault but ours becomes INTERNAL. */
export function toJobcellError(error: FastifyError | Error, request: FastifyRequest): JobcellError {
  if (error instanceof JobcellError) return error;
  if (isConnectionError(error)) {
    return new JobcellError('UNAVAILABLE', 'The database cannot be reached; try again in a moment.', { cause: error });
  }
  const code = 'code' in error ? error.code : undefined;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return request.routeOptions.config.tooLarge?.() ?? tooLarge('The body', limits.bodyBytes);
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return unsupportedMediaType(request);
  const status = 'statusCode' in error ? error.statusCode : undefined;
  if (status !== undefined && status >= 400 && status < 500) {
    return new JobcellError('BAD_REQUEST', `The request is not valid: ${error.message}.`, { cause: error });
  }
  return new JobcellError('INTERNAL', `The server failed; its log has the cause under request id ${request.id}.`, {
    cause: error,
  });
}

function unsupportedMediaType(request: FastifyRequest): JobcellError {
  const given = request.headers['content-type'];
  const accepted = request.routeOptions.config.accepts ?? ['application/json'];
  return new JobcellError(
    'UNSUPPORTED_MEDIA_TYPE',
    `${given ? `Content type \`${given}\` is not supported` : 'The body has no content type'} here; send ${accepted.join(' or ')}.`,
  );
}

/** A body is read as it stands: what it would unpack to is not bounded by its size. @throws JobcellError */
export function refusePacked(request: FastifyRequest): void {
  const encoding = request.headers['content-encoding'];
  if (encoding === undefined || encoding === 'identity') return;
  throw new JobcellError(
    'UNSUPPORTED_MEDIA_TYPE',
    `Content encoding \`${encoding}\` is not supported: send the body as it is, without a Content-Encoding.`,
  );
}
