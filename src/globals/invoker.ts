import { ownNamePattern } from '../own-names.ts';
import type { Queryable } from '../store/database.ts';
import { getMachineUser } from '../store/machine-users.ts';

/** Names a machine user of the workspace: `authInvoker` of a script, `invoker` of a request. */
export interface AuthInvoker {
  namespace: string;
  machineUserName: string;
}

/** What `tailor.context.getInvoker()` answers (behaviour.md 2). */
interface Invoker {
  id: string;
  type: 'user' | 'machine_user';
  workspaceId: string;
  attributes: string[];
  attributeMap: Record<string, unknown>;
}

/** Its JSON text, in one order of members. */
export const invokerText = ({ id, type, workspaceId, attributes, attributeMap }: Invoker): string =>
  JSON.stringify({ id, type, workspaceId, attributes, attributeMap } satisfies Invoker);

/** The machine user as an invoker, as it is now, as JSON text; null when there is none of that name. */
export async function machineUserText(
  db: Queryable,
  workspaceId: string,
  { namespace, machineUserName }: AuthInvoker,
): Promise<string | null> {
  // No machine user has another name, and PostgreSQL cannot even be asked for some.
  if (!ownNamePattern.test(namespace) || !ownNamePattern.test(machineUserName)) return null;
  const user = await getMachineUser(db, workspaceId, namespace, machineUserName);
  return user && invokerText({ ...user, type: 'machine_user', workspaceId });
}

/**
 * The invoker of what a script starts: the machine user that `options.authInvoker` names, or its own invoker.
 * @returns the JSON text, or why there is none.
 */
export async function invokerOfStart(
  db: Queryable,
  caller: { workspaceId: string; invoker: string | null },
  options: { authInvoker?: unknown },
): Promise<{ invoker: string | null } | { unknown: string }> {
  if (options.authInvoker === undefined) return { invoker: caller.invoker };
  const { namespace, machineUserName } = options.authInvoker as Record<string, unknown>;
  const choice = { namespace: String(namespace), machineUserName: String(machineUserName) };
  const invoker = await machineUserText(db, caller.workspaceId, choice);
  if (invoker !== null) return { invoker };
  const named = `${JSON.stringify(choice.machineUserName)} in the namespace ${JSON.stringify(choice.namespace)}`;
  return {
    unknown: `startWorkflow failed: this workspace has no machine user ${named}. Create it, or correct options.authInvoker.`,
  };
}
