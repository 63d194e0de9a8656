import type { BenchmarkOptions } from './benchmark.ts';

/** Does `work` so many times, with so many under way at once. @returns how long it took, ms. */
export async function load(count: number, atOnce: number, work: (n: number) => Promise<unknown>): Promise<number> {
  let next = 0;
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let n = next++; n < count; n = next++) await work(n);
    }),
  );
  return performance.now() - begun;
}

/**
 * Rounds in which every contender has its turn, so that what else the machine does falls on all of them. The first round
 * only warms up, unless `short`. @returns what each round of each contender brought.
 */
export async function interleave<T>(
  { rounds, short }: BenchmarkOptions,
  contenders: Record<string, () => Promise<T>>,
): Promise<Record<string, T[]>> {
  const results: Record<string, T[]> = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]));
  for (let round = short ? 1 : 0; round <= rounds; round++) {
    for (const [name, measure] of Object.entries(contenders)) {
      process.stderr.write(`  round ${round} of ${rounds}: ${name} ...`);
      const begun = performance.now();
      const result = await measure();
      process.stderr.write(` ${((performance.now() - begun) / 1_000).toFixed(1)} s\n`);
      if (round > 0) results[name]!.push(result);
    }
  }
  return results;
}
