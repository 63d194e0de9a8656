import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { JobcellError } from '../errors.ts';
import { invokerText, machineUserText } from '../globals/invoker.ts';
import { limits } from '../limits.ts';
import type { Queryable } from '../store/database.ts';
import type { Workspace } from '../store/workspaces.ts';
import { ownName } from './schemas.ts';

/** What a request gives a script to run with: of a workflow's start, and of a function's invocation. */

const kib = limits.invokerBytes / 1024;
const bounded = (value: unknown) => Buffer.byteLength(JSON.stringify(value)) <= limits.invokerBytes;

/** What an identity carries (behaviour.md 2, `tailor.context.getInvoker()`). */
export const invokerAttributes = {
  attributes: z
    .array(z.string())
    .default([])
    .refine(bounded, { error: `must have at most ${kib} KiB of JSON text` }),
  attributeMap: z
    .record(z.string(), z.unknown())
    .default({})
    .refine(bounded, { error: `must have at most ${kib} KiB of JSON text` }),
};

const machineUserChoice = z
  .strictObject({ namespace: ownName, machineUserName: ownName })
  .describe('A machine user of the workspace, with the attributes that it has now')
  .meta({ id: 'MachineUserChoice' });

const identity = z
  .strictObject({ id: z.string().min(1).max(256), type: z.enum(['user', 'machine_user']), ...invokerAttributes })
  .describe('An identity that the client vouches for; the workspace is the one of the path')
  .meta({ id: 'Invoker' });

type Invoker = z.infer<typeof machineUserChoice> | z.infer<typeof identity>;

/** Fields of a body. */
export const runInput = {
  args: z.unknown().describe('What main gets: any JSON value. Nothing and null are {}').optional(),
  invoker: z
    .union([machineUserChoice, identity])
    .nullable()
    .default(null)
    .describe('What `tailor.context.getInvoker()` answers; without one, null'),
};

/** What `tailor.context.getInvoker()` answers, as JSON text. @throws JobcellError BAD_REQUEST for an unknown machine user. */
export async function resolveInvoker(
  db: Queryable,
  invoker: Invoker | null,
  workspace: Workspace,
): Promise<string | null> {
  if (invoker === null) return null;
  if (!('machineUserName' in invoker)) return invokerText({ ...invoker, workspaceId: workspace.id });
  const text = await machineUserText(db, workspace.id, invoker);
  if (text !== null) return text;
  const message = `is no machine user of the namespace \`${invoker.namespace}\` in this workspace`;
  throw new JobcellError('BAD_REQUEST', `The body is not valid: \`invoker.machineUserName\` ${message}.`, {
    errors: [{ path: 'invoker.machineUserName', message }],
  });
}

/** Aborts when the client is gone, so that nobody waits for it. */
export function disconnected(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () =>
    controller.abort(new JobcellError('UNAVAILABLE', `The client of request ${request.id} is gone.`)),
  );
  return controller.signal;
}
