import { scriptRoutes } from './script-bundles.ts';

/** Job functions: what workflows are made of. */
export const jobFunctionRoutes = scriptRoutes({
  type: 'JOB',
  segment: 'job-functions',
  id: 'JobFunction',
  tag: 'Job functions',
  noun: 'job function',
  deleteNote: 'running executions keep the versions they started with',
});
