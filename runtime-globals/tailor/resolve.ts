import { failedCall } from '../errors.ts';
import { failureText } from '../failure.ts';
import { admitAsync, type Call, sendCall } from '../host.ts';
import { slice, stringifyJson } from '../intrinsics.ts';
import { toJson } from '../json.ts';
import { jobcellResolveCallback } from '../resolve-callback.ts';

/**
 * `tailor.workflow.resolve`: one recorded call, in two messages at one position. The first is answered with what the
 * wait carries, `{ payload }`; the callback makes the wait's result of it, and the second brings that, or how the
 * callback failed. When the first is answered with null, an earlier run has recorded all of it and nothing is left to do.
 *
 * @param args JSON text of `[key]`.
 * @param payload JSON text of `{ executionId }`.
 */
export async function runResolve(
  args: string,
  payload: string,
  callback: (payload: unknown) => unknown,
): Promise<void> {
  const begin: Call = { op: 'resolve', args, payload, recorded: true };
  const place = admitAsync(begin);
  const waiting = (await sendCall(begin, place)) as { payload: unknown } | null;
  if (waiting === null) return;
  let result: string;
  try {
    result = toJson(await jobcellResolveCallback(callback, waiting.payload), 'result');
  } catch (thrown) {
    // The failure is committed before the script sees it (E1, D6).
    const recorded = sendCall({ op: 'resolveWith', args, payload, recorded: true }, place, failureText(thrown, true));
    try {
      await recorded;
    } catch {
      // The answer tells of the failure that was just recorded; the script gets its own error.
    }
    failedCall(thrown, place.position);
    throw thrown;
  }
  const withResult = `${slice(args, 0, args.length - 1)},{"result":${stringifyJson(result)}}]`;
  await sendCall({ op: 'resolveWith', args: withResult, payload, recorded: true }, place);
}
