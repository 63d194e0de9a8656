import { limits } from '../limits.ts';
import type { JournalRecord, RecordKind } from '../store/journal.ts';
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

/**
 * D7: the body returned although an earlier run had made more calls. No line of the script stands for what it did not
 * do, so the message says where the first of them was made: by which run, and after which call.
 */
export function leftOverMessage(
  bodyPath: string,
  made: number,
  left: number,
  first: Call & { position: number; recordedRun: number },
  before: Call | null,
): string {
  const { position, recordedRun } = first;
  return (
    `The replay of ${bodyPath} returned after ${counted(made)}, without ${left === 1 ? 'a call' : counted(left)} ` +
    `that an earlier run of it had made. ${left === 1 ? 'It is' : 'The first of them is'} at position ${position}, made by ` +
    `run ${recordedRun} ${before ? `right after ${describe(before)}` : 'as its first call'}: recorded ${describe(first)}. ` +
    'A body must make the same calls in the same order whenever it is run again.'
  );
}

const counted = (calls: number) => (calls === 1 ? '1 call' : `${calls} calls`);

/**
 * D12: a mismatch may come from readings of the clock that were not kept. A segment that was cut is one that is full.
 * @param records of the body up to the call that does not match
 * @returns a sentence for the message, or nothing.
 */
export function clockHint(records: (Pick<JournalRecord, 'position' | 'clock'> | undefined)[]): string {
  const cut = records.find((record) => record?.clock && JSON.parse(record.clock).length >= limits.clockReadings);
  if (!cut) return '';
  return (
    ` Before its call at position ${cut.position} the body read the clock ${limits.clockReadings} times or more, and a ` +
    `replay answers the first ${limits.clockReadings} of them: read the time once and pass it on, if the difference comes from that.`
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
