import type { Queryable } from './database.ts';

export type CancelOutcome = 'canceled' | 'already-canceled' | 'not-found' | { finished: string };

/**
 * D29: the status and a new claim number commit at once, so that whatever the holder still sends is not written. The
 * holder stays on the row until it confirms that the run is gone, or its lease ends.
 */
export async function cancelExecution(db: Queryable, workspaceId: string, executionId: string): Promise<CancelOutcome> {
  const { rows } = await db.query<{ before: string; canceled: boolean }>('select * from cancel_execution($1, $2)', [
    workspaceId,
    executionId,
  ]);
  const row = rows[0];
  if (!row) return 'not-found';
  if (row.canceled) return 'canceled';
  return row.before === 'CANCELED' ? 'already-canceled' : { finished: row.before };
}
