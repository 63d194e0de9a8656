import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { limits } from '../limits.ts';
import type { Workspace } from '../store/workspaces.ts';
import { tooLarge } from './problem.ts';

/** What a request gives a script to run with: of a workflow's start, and of a function's invocation. */

/** behaviour.md 2, `tailor.context.getInvoker()`; the workspace is the one of the path. */
const invokerSchema = z.strictObject({
  id: z.string().min(1).max(256),
  type: z.enum(['user', 'machine_user']),
  attributes: z.array(z.string()).default([]),
  attributeMap: z.record(z.string(), z.unknown()).default({}),
});

/** Fields of a body. */
export const runInput = {
  args: z.unknown().describe('What main gets: any JSON value. Nothing and null are {}').optional(),
  invoker: invokerSchema.nullable().default(null).describe('What `tailor.context.getInvoker()` answers'),
};

export const argumentsTooLarge = () => tooLarge('`args`', limits.payloadBytes);

/**
 * Arguments as they are stored. JSON.stringify writes U+0000 and lone surrogates as escapes, which a text column takes.
 * @throws JobcellError PAYLOAD_TOO_LARGE, or BAD_REQUEST when the nesting is too deep to be written.
 */
export function argumentsText(args: unknown): string {
  let text: string;
  try {
    text = JSON.stringify(args ?? {});
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = 'is nested too deeply';
    throw new JobcellError('BAD_REQUEST', `The body is not valid: \`args\` ${message}.`, {
      errors: [{ path: 'args', message }],
      cause: error,
    });
  }
  if (Buffer.byteLength(text) > limits.payloadBytes) throw argumentsTooLarge();
  return text;
}

/** What `tailor.context.getInvoker()` answers, as JSON text. */
export function invokerText(invoker: z.infer<typeof invokerSchema> | null, workspace: Workspace): string | null {
  if (invoker === null) return null;
  const { id, type, attributes, attributeMap } = invoker;
  return JSON.stringify({ id, type, workspaceId: workspace.id, attributes, attributeMap });
}

/** Aborts when the client is gone, so that nobody waits for it. */
export function disconnected(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () =>
    controller.abort(new JobcellError('UNAVAILABLE', `The client of request ${request.id} is gone.`)),
  );
  return controller.signal;
}
