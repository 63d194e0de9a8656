import type { Queryable } from './database.ts';
import type { Claim } from './steps.ts';

/**
 * A dispatch of a stack of `frames` bodies, with these keys among them, found no room, and nothing of the run is left in
 * a cell (D4).
 * @returns 'taken' when there is room by now, and the execution holds it; 'suspended' when it has given back everything
 * and waits (D18, D21); null when the claim is lost.
 */
export async function suspendExecution(
  db: Queryable,
  claim: Claim,
  stack: { frames: number; keys: string[] },
): Promise<'taken' | 'suspended' | null> {
  const { rows } = await db.query<{ outcome: 'taken' | 'suspended' | null }>({
    name: 'suspend',
    text: 'select suspend_execution($1, $2, $3, $4, $5) as outcome',
    values: [claim.workspaceId, claim.executionId, claim.fence, stack.frames, stack.keys],
  });
  return rows[0]!.outcome;
}

/**
 * A piece of SQL: gives back what the execution at `$1`, `$2` holds under the claim `$3`; the statement around it
 * clears the holder of `f`.
 */
export const freedClaim =
  'f as materialized (select * from free_slots(array[$1::uuid], array[$2::uuid], array[$3::bigint]))';
