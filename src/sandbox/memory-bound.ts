const MiB = 1024 * 1024;

/** What a body may make its cell grow by, bytes, before it is ended by force (sandbox.md, The design, 6). */
export const memoryBound = (limitMb: number): number => (limitMb * 2 + 64) * MiB;
