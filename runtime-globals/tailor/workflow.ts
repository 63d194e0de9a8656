import { typeError } from '../errors.ts';
import { callAsync, callBlocking } from '../host.ts';
import { IntrinsicPromise, stringifyJson } from '../intrinsics.ts';
import { argumentsJson } from '../json.ts';
import { runResolve } from './resolve.ts';

/** `tailor.workflow` (behaviour.md 2). Every function here is a recorded call (D5). */
export function makeWorkflow() {
  const execJobFunction = (name: string, args?: unknown, options?: { executionPolicyKey?: string }): unknown =>
    callBlocking({
      op: 'execJobFunction',
      args: callArguments('execJobFunction', name, policyOptions(options)),
      payload: argumentsJson(args),
      recorded: true,
    });

  const startWorkflow = (name: string, args?: unknown, options?: { authInvoker?: AuthInvoker }): Promise<unknown> =>
    background(() => ({
      op: 'startWorkflow',
      args: callArguments('startWorkflow', name, invokerOptions(options)),
      payload: argumentsJson(args),
      recorded: true,
    }));

  const resumeWorkflowExecution = (executionId: string): Promise<unknown> =>
    background(() => ({
      op: 'resumeWorkflowExecution',
      args: callArguments('resumeWorkflowExecution', executionId),
      payload: null,
      recorded: true,
    }));

  const wait = (key: string, payload?: unknown): unknown =>
    callBlocking({ op: 'wait', args: callArguments('wait', key), payload: argumentsJson(payload), recorded: true });

  const resolve = async (executionId: string, key: string, callback: unknown): Promise<void> => {
    const args = callArguments('resolve', key, undefined, 'second');
    const target = quoted('resolve: its first argument', executionId);
    if (typeof callback !== 'function') throw typeError('resolve: its third argument must be a function.');
    await runResolve(args, `{"executionId":${target}}`, callback as (payload: unknown) => unknown);
  };

  return {
    execJobFunction,
    startJobFunction: execJobFunction,
    triggerJobFunction: execJobFunction,
    startWorkflow,
    triggerWorkflow: startWorkflow,
    resumeWorkflowExecution,
    resumeWorkflow: resumeWorkflowExecution,
    wait,
    resolve,
  };
}

interface AuthInvoker {
  namespace: string;
  machineUserName: string;
}

/** Bad arguments reject, as they do for any function that returns a promise. */
function background(make: () => Parameters<typeof callAsync>[0]): Promise<unknown> {
  let call: Parameters<typeof callAsync>[0];
  try {
    call = make();
  } catch (error) {
    return new IntrinsicPromise((_, reject) => {
      reject(error);
    });
  }
  return callAsync(call);
}

/** Longer than any name or key of the platform's grammars; bounds what crosses (S4). */
const maxNameLength = 1_024;

/** JSON text of a string, by hand into its place, so that no toJSON of the script's is asked. */
function quoted(what: string, value: unknown): string {
  if (typeof value !== 'string') throw typeError(`${what} must be a string.`);
  if (value.length > maxNameLength) throw typeError(`${what} has at most ${maxNameLength} characters.`);
  return stringifyJson(value);
}

function callArguments(what: string, name: unknown, options?: string, place = 'first'): string {
  const first = quoted(`${what}: its ${place} argument`, name);
  return options === undefined ? `[${first}]` : `[${first},${options}]`;
}

function policyOptions(options: { executionPolicyKey?: unknown } | null | undefined): string | undefined {
  const key = options?.executionPolicyKey;
  if (key === undefined || key === null) return undefined;
  return `{"executionPolicyKey":${quoted('execJobFunction: options.executionPolicyKey', key)}}`;
}

function invokerOptions(options: { authInvoker?: AuthInvoker | null } | null | undefined): string | undefined {
  const invoker = options?.authInvoker;
  if (invoker === undefined || invoker === null) return undefined;
  const namespace = quoted('startWorkflow: options.authInvoker.namespace', invoker.namespace);
  const machineUserName = quoted('startWorkflow: options.authInvoker.machineUserName', invoker.machineUserName);
  return `{"authInvoker":{"namespace":${namespace},"machineUserName":${machineUserName}}}`;
}
