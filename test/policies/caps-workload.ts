import fc from 'fast-check';

/** A body: how long it takes before and after its calls, ms, the key it is called with, and what it calls in turn. */
export interface BodyPlan {
  key: string | null;
  before: number;
  after: number;
  calls: BodyPlan[];
}

/** What random executions, policies and disturbances a run of the property consists of. */
export interface Workload {
  /** Caps of the policies at the start; null: declared without one. */
  policies: Record<PolicyName, number | null>;
  /** Caps of the workflows; null: the platform's own. */
  workflows: (number | null)[];
  executions: { workflow: number; startAfter: number; main: BodyPlan }[];
  changes: { after: number; policy: PolicyName; cap: number }[];
  /** Ends of servers and sandbox processes, one after the other. */
  ends: { after: number; server: number; kind: 'kill' | 'terminate' | 'cell' }[];
}

/** The policies of each run: a prefix, a key below it, a key of its own. */
export const policyKeys = {
  'broad-policy': { key: 'shared', matchType: 'prefix' },
  'narrow-policy': { key: 'shared.one', matchType: 'exact' },
  'single-policy': { key: 'single', matchType: 'exact' },
} as const;
export type PolicyName = keyof typeof policyKeys;
const keys = ['shared.one', 'shared.two', 'single'];

/** The policies whose caps count for a key. */
export const covering = (key: string): PolicyName[] =>
  (Object.keys(policyKeys) as PolicyName[]).filter((name) => {
    const policy = policyKeys[name];
    return policy.matchType === 'prefix' ? key.startsWith(policy.key) : key === policy.key;
  });

const pause = fc.integer({ min: 0, max: 40 });
const key = fc.option(fc.constantFrom(...keys), { freq: 4 });

function bodyPlan(depth: number): fc.Arbitrary<BodyPlan> {
  const calls: fc.Arbitrary<BodyPlan[]> =
    depth === 0 ? fc.constant([]) : fc.array(bodyPlan(depth - 1), { maxLength: 2 });
  return fc.record({ key, before: pause, after: pause, calls });
}

const policyName = fc.constantFrom(...(Object.keys(policyKeys) as PolicyName[]));
const smallCap = fc.integer({ min: 1, max: 3 });

export const workloads = (executions: number): fc.Arbitrary<Workload> =>
  fc.record({
    policies: fc.record({
      'broad-policy': fc.option(smallCap, { freq: 6 }),
      'narrow-policy': fc.option(smallCap, { freq: 6 }),
      'single-policy': smallCap,
    }),
    workflows: fc.array(fc.option(fc.integer({ min: 1, max: 4 })), { minLength: 2, maxLength: 2 }),
    executions: fc.array(
      fc.record({
        workflow: fc.nat({ max: 1 }),
        startAfter: fc.nat({ max: 1_500 }),
        main: fc.record({
          key: fc.constant(null),
          before: pause,
          after: pause,
          calls: fc.array(bodyPlan(2), { minLength: 1, maxLength: 3 }),
        }),
      }),
      { minLength: executions, maxLength: executions },
    ),
    changes: fc.array(fc.record({ after: fc.nat({ max: 2_000 }), policy: policyName, cap: smallCap }), {
      maxLength: 4,
    }),
    ends: fc.array(
      fc.record({
        after: fc.nat({ max: 1_000 }),
        server: fc.nat({ max: 2 }),
        kind: fc.constantFrom('kill' as const, 'terminate' as const, 'cell' as const, 'cell' as const),
      }),
      { maxLength: 3 },
    ),
  });

/** How many bodies an execution has: what it answers. */
export const bodies = (plan: BodyPlan): number => plan.calls.reduce((sum, call) => sum + bodies(call), 1);

/** The keys of the stack down to the body at a path, `m.0.1`: main, its first call, the second call of that. */
export function keysOf(main: BodyPlan, path: string): string[] {
  const found: string[] = [];
  let plan = main;
  for (const place of path.split('.').slice(1)) {
    plan = plan.calls[Number(place)]!;
    if (plan.key !== null) found.push(plan.key);
  }
  return found;
}

/** One job function for every body: it says when it begins, calls, is back, and ends, and answers how many bodies it had. */
export const nodeScript = `
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  export async function main({ url, execution, path, plan }) {
    const note = async (kind, id) =>
      (await fetch(url + '/' + kind + '?execution=' + execution + '&path=' + path + '&id=' + id)).text();
    // The counter server names this very run of the body: what is drawn in here would be the same on a replay.
    const id = await note('begin', '');
    await sleep(plan.before);
    let sum = 1;
    for (const [place, call] of plan.calls.entries()) {
      await note('call', id);
      sum += tailor.workflow.execJobFunction(
        'node', { url, execution, path: path + '.' + place, plan: call }, call.key === null ? {} : { executionPolicyKey: call.key });
      await note('back', id);
    }
    await sleep(plan.after);
    await note('end', id);
    return sum;
  }`;
