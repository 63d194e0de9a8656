/** What of the web platform's tests is run, and what has to pass (issue: the web platform, measured by its own tests). */
export interface Area {
  name: string;
  folders: string[];
  /** Share of all subtests that has to pass, or of those that Node itself passes. */
  bar: { share: number; of: 'all' | 'node' };
}

const ofNode = { share: 0.9, of: 'node' } as const;

export const areas: Area[] = [
  { name: 'url', folders: ['url'], bar: { share: 0.98, of: 'all' } },
  { name: 'streams', folders: ['streams'], bar: { share: 0.97, of: 'all' } },
  { name: 'encoding', folders: ['encoding'], bar: { share: 0.95, of: 'all' } },
  {
    name: 'fetch',
    folders: ['headers', 'request', 'response', 'body'].map((name) => `fetch/api/${name}`),
    bar: ofNode,
  },
  { name: 'FileAPI', folders: ['FileAPI', 'xhr/formdata'], bar: ofNode },
  { name: 'dom', folders: ['dom/abort', 'dom/events'], bar: ofNode },
  {
    name: 'webappapis',
    folders: ['atob', 'microtask-queuing', 'structured-clone', 'timers'].map((name) => `html/webappapis/${name}`),
    bar: ofNode,
  },
  { name: 'compression', folders: ['compression'], bar: ofNode },
  { name: 'WebCryptoAPI', folders: ['WebCryptoAPI'], bar: ofNode },
  { name: 'urlpattern', folders: ['urlpattern'], bar: ofNode },
  { name: 'console', folders: ['console'], bar: ofNode },
];
