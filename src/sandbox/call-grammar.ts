/**
 * Names and keys of recorded calls (behaviour.md 4). The runtime globals throw for what does not fit at the call, before
 * anything of it leaves the isolate; the engine looks again, since it stores them and makes paths of them (D33).
 */

/** Job functions, and what names a workflow or an execution; one that fits can still be unknown. */
export const namePattern = /^[^/\p{Cc}\p{Cs}]{1,128}$/u;
export const nameRule = 'must be 1 to 128 characters without / and without control characters';

/** The key of a wait. */
export const waitKeyPattern = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/;
export const waitKeyRule = 'must be 3 to 63 characters of a-z, 0-9 and -, and neither begin nor end with -';

/** The key of one dispatch; `*` only stands at the end of a declared policy's. */
export const executionPolicyKeyPattern = /^[a-z0-9][a-z0-9_:.-]{0,62}[a-z0-9]$/;
export const executionPolicyKeyRule =
  'must be 2 to 64 characters of a-z, 0-9, _, :, . and -, and begin and end with a letter or digit';
