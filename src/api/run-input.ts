import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import type { Workspace } from '../store/workspaces.ts';

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
