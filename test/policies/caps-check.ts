import { covering, keysOf, type PolicyName, type Workload } from './caps-workload.ts';

/** What a body told the counter server; `at` is when it arrived there, ms of one clock. */
export interface Note {
  at: number;
  kind: 'begin' | 'call' | 'back' | 'end';
  execution: number;
  path: string;
  /** Which run of the body, named by the counter server. */
  id: string;
}

/** A cap, from the moment it was asked for; it may count until the next one was confirmed. */
export interface CapChange {
  pool: PolicyName | `workflow-${number}`;
  cap: number | null;
  sent: number;
  answered: number;
}

/** A body that was alive without doubt from its first note to the last one of it or of what it called. */
interface Alive {
  execution: number;
  path: string;
  from: number;
  to: number;
  parent: Alive | undefined;
  /** Its slots were taken after this moment, and before `from`. */
  takenAfter: number;
}

const platform = { executions: 50, workflow: 20, dispatches: 100, key: 50 };

/**
 * E4 from the notes of the bodies alone: at no moment more of them were alive than a cap allowed. A body holds its slots
 * for longer than it is seen to be alive, so whatever is found here is a broken cap, and no delay of a note can feign one.
 */
export function checkCaps(workload: Workload, notes: Note[], started: number[], changes: CapChange[]): string[] {
  const alive = bodiesOf(notes, started);
  const violations: string[] = [];

  /** The largest cap of a pool that may have counted at some moment of this time. */
  function largest(pool: CapChange['pool'], fallback: number, from: number, to: number): number {
    const own = changes.filter((change) => change.pool === pool);
    const counting = own.filter(
      ({ sent }, index) => sent <= to && (own[index + 1]?.answered ?? Number.POSITIVE_INFINITY) >= from,
    );
    return Math.max(...counting.map(({ cap }) => cap ?? fallback));
  }

  function expectAtMost(what: string, holders: Alive[], cap: (holder: Alive) => number): void {
    // The last of them to take its slot found room for it, under a cap that counted then.
    const allowed = Math.max(...holders.map(cap));
    if (holders.length > allowed) violations.push(`${holders.length} of ${what} at once instead of ${allowed}`);
  }

  for (const { from: moment, execution, path } of alive) {
    const now = alive.filter(({ from, to }) => from <= moment && moment <= to);
    const executions = [...Map.groupBy(now, (body) => body.execution).values()].map((of) => of[0]!);
    expectAtMost('the dispatches', now, () => platform.dispatches);
    expectAtMost('the executions', executions, () => platform.executions);
    const { workflow } = workload.executions[execution]!;
    expectAtMost(
      `workflow ${workflow}`,
      executions.filter((holder) => workload.executions[holder.execution]!.workflow === workflow),
      ({ takenAfter, from }) =>
        Math.min(platform.workflow, largest(`workflow-${workflow}`, platform.workflow, takenAfter, from)),
    );
    for (const key of new Set(keysOf(workload.executions[execution]!.main, path))) {
      const keyed = now.filter((body) => keysOf(workload.executions[body.execution]!.main, body.path).includes(key));
      const stacks = [...Map.groupBy(keyed, (body) => body.execution).values()].map((of) => of[0]!);
      expectAtMost(`key ${key}`, stacks, ({ takenAfter, from }) =>
        Math.min(...covering(key).map((policy) => largest(policy, platform.key, takenAfter, from))),
      );
    }
  }
  return violations;
}

function bodiesOf(notes: Note[], started: number[]): Alive[] {
  const all: Alive[] = [];
  for (const [execution, own] of Map.groupBy(notes, (note) => note.execution)) {
    const byId = new Map<string, Alive>();
    /** The newest run of each body. */
    const newest = new Map<string, Alive>();
    let last = started[execution]!;
    /** From here on it may hold what it has: since its last event, or since that of its life before (D18). */
    let takenAfter = last;
    let lives = 0;
    for (const { at, kind, path, id } of own) {
      if (kind === 'begin') {
        const isMain = !path.includes('.');
        if (isMain) lives++;
        if (isMain || lives === 1) takenAfter = last;
        const parent = isMain ? undefined : newest.get(path.slice(0, path.lastIndexOf('.')));
        const body = { execution, path, from: at, to: at, parent, takenAfter };
        byId.set(id, body);
        newest.set(path, body);
        all.push(body);
      }
      for (let body = byId.get(id); body; body = body.parent) body.to = at;
      last = at;
    }
  }
  return all;
}
