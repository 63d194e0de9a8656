import type { RecordKind } from '../store/journal.ts';
import { jsonTextEqual } from './json-equal.ts';

/** What a recorded call is known by when it is made again (D7). */
export interface Call {
  kind: RecordKind;
  name: string;
  /** JSON text. */
  args: string;
}

/** A recorded call as a body just made it. */
export interface MadeCall extends Call {
  position: number;
  executionPolicyKey: string | null;
  /** The run of the body that makes it, and its readings of the clock before it, as a JSON array (D12, D13). */
  recordedRun: number;
  clock: string | null;
}

/** Arguments are shown in a mismatch up to this many characters. */
const shownArgs = 300;

/** D7: a match compares kind, name and arguments as JSON values; the execution policy key is not compared. */
export function matches(recorded: Call, call: Call): boolean {
  return recorded.kind === call.kind && recorded.name === call.name && jsonTextEqual(recorded.args, call.args);
}

/** What went wrong, to a person: the body, the position, the recorded call and the replayed one. */
export function mismatchMessage(bodyPath: string, position: number, record: Call, call: Call): string {
  return (
    `The replay of ${bodyPath} made another call at position ${position} than the run before: ` +
    `recorded ${describe(record)}, replayed ${describe(call)}. ` +
    'A body must make the same calls with the same arguments in the same order whenever it is run again.'
  );
}

/** D7: the body returned although an earlier run had made more calls. */
export function leftOverMessage(bodyPath: string, count: number, position: number, first: Call): string {
  return (
    `The replay of ${bodyPath} returned without ${count === 1 ? 'a call' : `${count} calls`} that the run ` +
    `before had made, the first at position ${position}: recorded ${describe(first)}. ` +
    'A body must make the same calls in the same order whenever it is run again.'
  );
}

const callNames = {
  job: 'execJobFunction',
  startWorkflow: 'startWorkflow',
  wait: 'wait',
  resolve: 'resolve',
  resumeWorkflowExecution: 'resumeWorkflowExecution',
} as const satisfies Record<RecordKind, string>;

function describe({ kind, name, args }: Call): string {
  const shown = args.length > shownArgs ? `${args.slice(0, shownArgs)}... (${args.length} characters)` : args;
  return `${callNames[kind]}(${JSON.stringify(name)}, ${shown})`;
}
