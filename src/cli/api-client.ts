/** The HTTP interface as the command line uses it (http-api.md). */
export interface ApiClient {
  get<T>(path: string): Promise<T>;
  put<T>(path: string, body: unknown): Promise<T>;
  /** Uploads a script. */
  putScript<T>(path: string, script: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
}

/** What of an execution the command line shows. */
export interface Execution {
  id: string;
  workflow: string;
  error: { name: string; message: string } | null;
  parent: { executionId: string; path: string } | null;
  finishedAt: string | null;
  result: unknown;
}

/** A recorded call: one row of the journal. */
export interface JournalRecord {
  path: string;
  /** Path of the body that made the call; empty for main. */
  parentPath: string;
  position: number;
  kind: 'job' | 'startWorkflow';
  name: string;
  status: 'RUNNING' | 'SUSPEND' | 'SUCCESS' | 'FAILED' | 'WAITING' | 'CANCELED';
  args: unknown;
  result: unknown;
  error: { name: string; message: string } | null;
  runs: number;
  startedAt: string;
  finishedAt: string | null;
}

/** An execution with its journal. */
export interface Run {
  execution: Execution;
  journal: JournalRecord[];
}

/** An answer that is no success is an error with the problem's detail. */
export function createApiClient(url: string, token: string): ApiClient {
  const send = async <T>(method: string, path: string, type?: string, body?: string): Promise<T> => {
    const headers: Record<string, string> = { authorization: `Bearer ${token}` };
    if (type !== undefined) headers['content-type'] = type;
    const response = await fetch(new URL(path, url), { method, headers, ...(body === undefined ? {} : { body }) });
    const text = await response.text();
    if (response.ok) return JSON.parse(text) as T;
    throw new Error(`${method} ${path} answered ${response.status}: ${problemDetail(text)}`);
  };
  return {
    get: (path) => send('GET', path),
    put: (path, body) => send('PUT', path, 'application/json', JSON.stringify(body)),
    putScript: (path, script) => send('PUT', path, 'text/javascript', script),
    post: (path, body) => send('POST', path, 'application/json', JSON.stringify(body)),
  };
}

function problemDetail(text: string): string {
  try {
    const { code, detail } = JSON.parse(text) as { code: string; detail: string };
    return `${code}: ${detail}`;
  } catch {
    return text.slice(0, 500);
  }
}
