import { limits } from '../limits.ts';
import type { HostAnswer, HostCall } from '../sandbox/protocol.ts';
import type { JournalRecord } from '../store/journal.ts';
import type { Body } from './body.ts';
import { type Failure, journalLimitFailure, mismatch, toScriptError } from './failures.ts';
import { type MadeCall, matches, mismatchMessage } from './replay.ts';
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
  if (!operation) {
    return { error: { name: 'TypeError', message: `${call.op} is not a call a job function can make`, stack: '' } };
  }
  const [name, options = {}] = JSON.parse(call.args) as [string, Record<string, unknown>?];
  const made: MadeCall = {
    kind: operation.kind,
    name,
    args: call.payload ?? '{}',
    position: call.position,
    executionPolicyKey: typeof options.executionPolicyKey === 'string' ? options.executionPolicyKey : null,
    recordedRun: body.ran!.run,
    clock: call.clock.length > 0 ? JSON.stringify(call.clock) : null,
  };
  const recorded = tree.journal.at(body.path, call.position);
  if (recorded && !matches(recorded, made)) {
    tree.failExecution(mismatch(body, mismatchMessage(body.path, call.position, recorded, made)));
    return null;
  }
  if (recorded && isFinished(recorded)) return answer(recorded);
  if (!recorded && tree.journal.size >= limits.journalRecords) {
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
  return answer(outcome);
}

const isFinished = (record: JournalRecord) => record.status === 'SUCCESS' || record.status === 'FAILED';

function answer(record: JournalRecord): HostAnswer {
  if (record.status === 'SUCCESS') return { value: record.result ?? 'null' };
  return { error: toScriptError(JSON.parse(record.error!) as Failure) };
}

/**
 * Carries a call out and commits its record.
 * @returns the record; an answer when there is more to come before there is a record; null when the tree has ended.
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
