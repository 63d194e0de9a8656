import {
  executionPolicyKeyPattern,
  executionPolicyKeyRule,
  namePattern,
  nameRule,
  waitKeyPattern,
  waitKeyRule,
} from '../../src/sandbox/call-grammar.ts';
import { codedError, typeError } from '../errors.ts';
import { callAsync, callBlocking } from '../host.ts';
import { IntrinsicPromise, regExpExec } from '../intrinsics.ts';
import { argumentsJson } from '../json.ts';
import { quoted } from '../quoted.ts';
import { runResolve } from './resolve.ts';

/** `tailor.workflow` (behaviour.md 2). Every function here is a recorded call (D5). */
export function makeWorkflow() {
  const execJobFunction = (name: string, args?: unknown, options?: { executionPolicyKey?: string }): unknown =>
    callBlocking({
      op: 'execJobFunction',
      args: `[${jobName(name)}${policyOptions(options)}]`,
      payload: argumentsJson(args),
      recorded: true,
    });

  const startWorkflow = (name: string, args?: unknown, options?: { authInvoker?: AuthInvoker }): Promise<unknown> =>
    background(() => ({
      op: 'startWorkflow',
      args: `[${workflowName(name)}${invokerOptions(options)}]`,
      payload: argumentsJson(args),
      recorded: true,
    }));

  const resumeWorkflowExecution = (executionId: string): Promise<unknown> =>
    background(() => ({
      op: 'resumeWorkflowExecution',
      args: `[${executionName('resumeWorkflow', executionId)}]`,
      payload: null,
      recorded: true,
    }));

  const wait = (key: string, payload?: unknown): unknown =>
    callBlocking({
      op: 'wait',
      args: `[${waitKey('wait', 'first', key)}]`,
      payload: argumentsJson(payload),
      recorded: true,
    });

  const resolve = async (executionId: string, key: string, callback: unknown): Promise<void> => {
    const args = `[${waitKey('resolve', 'second', key)}]`;
    const target = executionName('resolve', executionId);
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

const fits = (pattern: RegExp, value: string) => regExpExec(pattern, value) !== null;

function jobName(name: string): string {
  const text = quoted('execJobFunction: its first argument', name);
  if (fits(namePattern, name)) return text;
  throw codedError('BAD_REQUEST', `execJobFunction failed: the name ${text} ${nameRule}.`);
}

/** What cannot be the name of any workflow is as unknown as one that nobody has created. */
function workflowName(name: string): string {
  const text = quoted('startWorkflow: its first argument', name);
  if (fits(namePattern, name)) return text;
  const message = `startWorkflow failed: there is no workflow ${text} in this workspace. Create it, or correct the name.`;
  throw codedError('WORKFLOW_NOT_FOUND', message);
}

function executionName(what: string, executionId: string): string {
  const text = quoted(`${what}: its first argument`, executionId);
  if (fits(namePattern, executionId)) return text;
  throw codedError('BAD_REQUEST', `${what} failed: ${text} is not the id of an execution.`);
}

function waitKey(what: string, place: string, key: string): string {
  const text = quoted(`${what}: its ${place} argument`, key);
  if (fits(waitKeyPattern, key)) return text;
  throw codedError('BAD_REQUEST', `${what} failed: the key ${text} ${waitKeyRule}.`);
}

function policyOptions(options: { executionPolicyKey?: unknown } | null | undefined): string {
  const key = options?.executionPolicyKey;
  if (key === undefined || key === null) return '';
  const text = quoted('execJobFunction: options.executionPolicyKey', key);
  if (fits(executionPolicyKeyPattern, key as string)) return `,{"executionPolicyKey":${text}}`;
  throw codedError('BAD_REQUEST', `execJobFunction failed: the executionPolicyKey ${text} ${executionPolicyKeyRule}.`);
}

function invokerOptions(options: { authInvoker?: AuthInvoker | null } | null | undefined): string {
  const invoker = options?.authInvoker;
  if (invoker === undefined || invoker === null) return '';
  const namespace = quoted('startWorkflow: options.authInvoker.namespace', invoker.namespace);
  const machineUserName = quoted('startWorkflow: options.authInvoker.machineUserName', invoker.machineUserName);
  return `,{"authInvoker":{"namespace":${namespace},"machineUserName":${machineUserName}}}`;
}
