/** Written by scripts/globals.mjs: the core's modules by file, for bundles. */
declare module 'jobcell:shared' {
  export function shared(): object;
}
