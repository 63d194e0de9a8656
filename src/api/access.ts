import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import { JobcellError } from '../errors.ts';
import { findWorkspaceOfToken } from '../store/tokens.ts';
import { getWorkspace, type Workspace } from '../store/workspaces.ts';
import type { ApiDependencies } from './dependencies.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The workspace of the path, once its hook has let the request in. */
    workspace: Workspace | null;
  }
}

/** Hooks that let a request in or refuse it; they run before its body is read. */
export interface Access {
  /** For routes outside of any workspace, and those that only the administrator may use. */
  admin: onRequestAsyncHookHandler;
  /** For routes below `/v1/workspaces/:workspace`: the admin token, or a token of that workspace. */
  workspace: onRequestAsyncHookHandler;
}

export const hashToken = (token: string): Buffer => createHash('sha256').update(token).digest();

/** The workspace that the `workspace` hook found. */
export function workspaceOf(request: FastifyRequest): Workspace {
  if (request.workspace === null) throw new Error(`${request.routeOptions.url} is not behind the workspace hook`);
  return request.workspace;
}

/**
 * Tokens are looked up for each request, by an index: no cache, so a deleted token is refused at once by every server.
 */
export function createAccess({ pool, adminToken }: Pick<ApiDependencies, 'pool' | 'adminToken'>): Access {
  const adminHash = hashToken(adminToken);

  /** Who asks: the administrator, or a workspace. @throws JobcellError UNAUTHORIZED */
  async function authenticate(request: FastifyRequest): Promise<'admin' | Workspace> {
    const hash = hashToken(bearerToken(request));
    // Hashes have one length and nothing to learn from, so the comparison takes the same time for every token.
    if (timingSafeEqual(hash, adminHash)) return 'admin';
    const workspace = await findWorkspaceOfToken(pool, hash);
    if (workspace === null) throw new JobcellError('UNAUTHORIZED', 'The token is not known; it may have been deleted.');
    return workspace;
  }

  return {
    admin: async (request) => {
      if ((await authenticate(request)) === 'admin') return;
      throw new JobcellError(
        'NOT_FOUND',
        `A workspace token does not open ${request.method} ${request.url}: workspaces and tokens are managed with the administrator's token.`,
      );
    },
    workspace: async (request) => {
      const { workspace: name } = request.params as { workspace: string };
      const caller = await authenticate(request);
      const workspace = caller === 'admin' ? await findWorkspace(pool, name) : caller;
      // Not 403: whether somebody else's workspace exists is nobody's business.
      if (workspace?.name !== name) throw noWorkspace(name, caller === 'admin');
      if (workspace.deleting && !['GET', 'HEAD', 'DELETE'].includes(request.method)) {
        throw new JobcellError('CONFLICT', `Workspace \`${name}\` is being deleted and takes nothing new.`);
      }
      request.workspace = workspace;
    },
  };
}

/** A name PostgreSQL cannot hold is one that no workspace has. */
async function findWorkspace(pool: ApiDependencies['pool'], name: string): Promise<Workspace | null> {
  return name.includes('\0') ? null : getWorkspace(pool, name);
}

function noWorkspace(name: string, admin: boolean): JobcellError {
  const hint = admin ? '; PUT /v1/workspaces/{workspace} creates one' : ' that this token opens';
  return new JobcellError('NOT_FOUND', `There is no workspace \`${name}\`${hint}.`);
}

function bearerToken(request: FastifyRequest): string {
  const { authorization } = request.headers;
  if (authorization === undefined) {
    throw new JobcellError(
      'UNAUTHORIZED',
      'The request has no token; send the header `Authorization: Bearer <token>`.',
    );
  }
  const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
  if (token === undefined) {
    throw new JobcellError('UNAUTHORIZED', 'The Authorization header must be `Bearer <token>`.');
  }
  return token;
}
