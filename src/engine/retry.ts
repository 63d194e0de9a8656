import { durationMs } from '../duration.ts';
import type { RetryPolicy } from '../store/workflows.ts';
import type { Failure } from './failures.ts';

/** D27: another attempt would end the same way. (A canceled execution never comes here.) */
const neverRetried = new Set(['ARGUMENT_MISMATCH', 'STACK_LIMIT_EXCEEDED', 'JOURNAL_LIMIT', 'CRASH_LOOP']);

/**
 * The pause before the next attempt, ms: exponential, from `initialBackoff`, at most `maxBackoff`.
 * Null when there is none: no policy, its retries are used up, or the failure is of a kind that is not retried.
 */
export function retryBackoffMs(policy: RetryPolicy | null, retryCount: number, failure: Failure): number | null {
  if (!policy || retryCount >= policy.maxRetries) return null;
  // BAD_REQUEST of the engine's own is the depth limit (D25).
  if (neverRetried.has(failure.code) || failure.code === 'BAD_REQUEST') return null;
  const backoff = durationMs(policy.initialBackoff) * policy.backoffMultiplier ** retryCount;
  return Math.min(backoff, durationMs(policy.maxBackoff));
}
