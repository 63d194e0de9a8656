import { limits } from '../limits.ts';
import { executionPolicyKeyPattern, namePattern, waitKeyPattern } from '../sandbox/call-grammar.ts';
import type { HostAnswer, HostCall } from '../sandbox/protocol.ts';
import type { JournalRecord, RecordValues } from '../store/journal.ts';
import type { Body } from './body.ts';
import { type Failure, journalLimitFailure, mismatch, toScriptError } from './failures.ts';
import { clockHint, type MadeCall, matches, mismatchMessage } from './replay.ts';
import { resumeOther } from './resume-call.ts';
import { startWorkflow } from './start-workflow.ts';
import type { Tree } from './tree.ts';
import { beginResolve, commitResolve, wait } from './waits.ts';

/**
 * Answers a call of a body: from the record, or by carrying it out and recording it.
 * @returns null when the tree has ended meanwhile; nobody waits for an answer then.
 */
export async function handleCall(tree: Tree, body: Body, call: HostCall): Promise<HostAnswer | null> {
  if (call.position === null) return tree.hostCalls.handle(body, call);
  const operation = operations[call.op];
  const [name, options = {}] = JSON.parse(call.args) as [unknown, Record<string, unknown>?];
  if (!operation || !fits(operation.kind, name, options)) {
    return { error: { name: 'TypeError', message: `${call.op} is not a call a job function can make`, stack: '' } };
  }
  const recorded = tree.journal.at(body.path, call.position);
  const made: MadeCall = {
    kind: operation.kind,
    name,
    args: call.payload ?? '{}',
    position: call.position,
    executionPolicyKey: typeof options.executionPolicyKey === 'string' ? options.executionPolicyKey : null,
    // What the isolate drew its chance and time from: a call that is made again keeps what it was recorded with.
    recordedRun: recorded?.recordedRun ?? body.ran!.run,
    clock: recorded?.clock ?? (call.clock.length > 0 ? JSON.stringify(call.clock) : null),
  };
  if (recorded) {
    const values = await tree.journal.values(recorded);
    const before = { ...recorded, args: values.args };
    if (!matches(before, made)) {
      const message = mismatchMessage(body.path, call.position, before, made);
      const hint = clockHint(tree.journal.of(body.path).slice(0, call.position + 1));
      return tree.endAtCall(body, mismatch(body, message + hint));
    }
    if (recorded.status === 'SUCCESS' || recorded.status === 'FAILED') return answer(values);
  }
  const { size, bytes } = tree.journal;
  if (!recorded && (size >= limits.journalRecords || bytes >= limits.journalBytes)) {
    tree.failExecution(journalLimitFailure(body));
    return null;
  }
  const outcome = await operation.carryOut(tree, body, made, options);
  if (!outcome || tree.stopped) return null;
  if ('answer' in outcome) return outcome.answer;
  // D15: every step is followed by a replay, so that what is not deterministic shows at once.
  if (tree.run.execution.replay === 'always') {
    tree.stop({ type: 'again' });
    return null;
  }
  return answer(outcome.values!);
}

/** The runtime globals have looked already; what comes through nevertheless must not reach a path or a row (D33). */
function fits(kind: MadeCall['kind'], name: unknown, options: Record<string, unknown>): name is string {
  const pattern = kind === 'wait' || kind === 'resolve' ? waitKeyPattern : namePattern;
  const { executionPolicyKey: key } = options;
  const keyFits = key === undefined || (typeof key === 'string' && executionPolicyKeyPattern.test(key));
  return typeof name === 'string' && pattern.test(name) && keyFits && typeof (options.authInvoker ?? {}) === 'object';
}

/** What a finished call answers, the first time and on every replay. */
function answer({ result, error }: RecordValues): HostAnswer {
  return error === null ? { value: result ?? 'null' } : { error: toScriptError(JSON.parse(error) as Failure) };
}

/**
 * Carries a call out and commits its record.
 * @returns the record with its values; an answer when there is more to come before there is a record; null when the tree has ended.
 */
export type CarryOut = (
  tree: Tree,
  body: Body,
  call: MadeCall,
  options: Record<string, unknown>,
) => Promise<JournalRecord | { answer: HostAnswer } | null>;

const operations: Record<string, { kind: MadeCall['kind']; carryOut: CarryOut }> = {
  execJobFunction: { kind: 'job', carryOut: (tree, body, call) => tree.runChild(body, call) },
  startWorkflow: { kind: 'startWorkflow', carryOut: startWorkflow },
  wait: { kind: 'wait', carryOut: wait },
  // Two calls at one position: the first answers the payload for the script's callback, the second brings its result.
  resolve: { kind: 'resolve', carryOut: beginResolve },
  resolveWith: { kind: 'resolve', carryOut: commitResolve },
  resumeWorkflowExecution: { kind: 'resumeWorkflowExecution', carryOut: resumeOther },
};
