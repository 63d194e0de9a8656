/** What every benchmark file exports, and which there are. */

export interface BenchmarkOptions {
  /** Interleaved rounds that are counted; one more comes before them, to warm up, unless `short`. */
  rounds: number;
  /** Whether it is only tried out: a tenth of the work in one round, figures that say nothing. */
  short: boolean;
}

/** So many, or a tenth of it when a benchmark is only tried out. */
export const scaled = (count: number, short: boolean): number => (short ? Math.ceil(count / 10) : count);

export interface Benchmark {
  /** The heading of its section in docs/benchmarks.md. */
  title: string;
  /** @returns the lines of that section. */
  run(options: BenchmarkOptions): Promise<string[]>;
}

/** In the order of `all`; bench/NAME.ts exports a `benchmark`. */
export const names = [
  'steps',
  'sequential',
  'replay',
  'latency',
  'invoke',
  'isolate',
  'slots',
  'policies',
  'fleet',
  'memory',
] as const;

export type Name = (typeof names)[number];

export async function load(name: Name): Promise<Benchmark> {
  const { benchmark } = (await import(`../${name}.ts`)) as { benchmark: Benchmark };
  return benchmark;
}
