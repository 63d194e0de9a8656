/** The form of durations in declarations: behaviour.md 4, retryPolicy. */
export const durationPattern = /^(\d{1,9})(ms|s|m)$/;

const unitMs = { ms: 1, s: 1_000, m: 60_000 } as const;

/** Milliseconds of a duration such as `500ms`, `10s` or `5m`. @throws TypeError when it is none. */
export function durationMs(text: string): number {
  const match = durationPattern.exec(text);
  if (!match) throw new TypeError(`${JSON.stringify(text)} is not a duration such as 500ms, 10s or 5m`);
  return Number(match[1]) * unitMs[match[2] as keyof typeof unitMs];
}
