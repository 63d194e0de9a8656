import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestServer } from './server.ts';

/** Shapes of http-api.md, "Workflows and executions". */
export interface Execution {
  id: string;
  workflow: string;
  status: string;
  args: unknown;
  result: unknown;
  error: ExecutionError | null;
  attempt: number;
  depth: number;
  parent: { executionId: string; path: string } | null;
  revision: number;
  retryCount: number;
  retryAfter: string | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  stack: string[];
  jobExecutions: JobExecution[];
  waitingFor: WaitingFor | null;
}

interface WaitingFor {
  reason: string;
  key?: string;
  payload?: unknown;
  retryAfter?: string;
  need?: { pool: string; slots: number }[];
  pool?: string | null;
  policy?: string | null;
  cap?: number | null;
  inUse?: number | null;
  holders?: string[];
  position?: number | null;
}

export interface LivePool {
  pool: string;
  policy: string | null;
  cap: number;
  inUse: number;
  holders: string[];
  queued: number;
}

export interface JobExecution {
  id: string;
  path: string;
  stackedJobName: string;
  name: string;
  status: string;
  args: unknown;
  result: unknown;
  error: ExecutionError | null;
  executionPolicyKey: string | null;
  functionVersion: number | null;
  runs: number;
  startedAt: string;
  finishedAt: string | null;
  usage: { peakMemoryBytes: number; memoryLimitBytes: number; cpuMs: number; wallMs: number } | null;
}

interface ExecutionError {
  name: string;
  message: string;
  stack: string;
  kind: string;
  code: string;
  at: string;
  previousError?: ExecutionError;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  errors?: { path: string; message: string }[];
  line?: number | null;
  column?: number | null;
}

export interface Answer<T> {
  status: number;
  headers: Headers;
  body: T;
}

export interface RequestOptions {
  /** A string is a script, anything else is sent as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
}

const finalStatuses = new Set(['SUCCESS', 'FAILED', 'CANCELED']);

/** Speaks to a server with one token (the admin's by default, none with `null`), also after its restart. */
export class Client {
  readonly server: Pick<TestServer, 'url' | 'adminToken'>;
  readonly token: string | null;

  constructor(server: Pick<TestServer, 'url' | 'adminToken'>, token: string | null = server.adminToken) {
    this.server = server;
    this.token = token;
  }

  /** Answers whatever the server answers, errors included. */
  async request<T = unknown>(method: string, path: string, options: RequestOptions = {}): Promise<Answer<T>> {
    const { body } = options;
    const headers: Record<string, string> = { ...options.headers };
    if (this.token !== null) headers.authorization ??= `Bearer ${this.token}`;
    if (body !== undefined)
      headers['content-type'] ??= typeof body === 'string' ? 'text/javascript' : 'application/json';
    const response = await fetch(new URL(path, this.server.url), {
      method,
      headers,
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const json = /\bjson\b/.test(response.headers.get('content-type') ?? '') && text !== '';
    return { status: response.status, headers: response.headers, body: (json ? JSON.parse(text) : text) as T };
  }

  /** As `request`, but an answer that is no success is an error that shows it. */
  async expect<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const answer = await this.request<T>(method, path, options);
    if (answer.status < 300) return answer.body;
    throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  }

  get<T = unknown>(path: string, options?: RequestOptions): Promise<Answer<T>> {
    return this.request<T>('GET', path, options);
  }

  put<T = unknown>(path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>> {
    return this.request<T>('PUT', path, { ...options, body });
  }

  post<T = unknown>(path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>> {
    return this.request<T>('POST', path, { ...options, body });
  }

  delete<T = unknown>(path: string, options?: RequestOptions): Promise<Answer<T>> {
    return this.request<T>('DELETE', path, options);
  }

  /** Creates a workspace; without a name, one that no other test has. */
  async createWorkspace(name = `test-${randomBytes(6).toString('hex')}`): Promise<Workspace> {
    await this.expect('PUT', `/v1/workspaces/${name}`, { body: {} });
    return new Workspace(this, name);
  }
}

/** One workspace, seen by one client. The helpers reject on any answer that is no success. */
export class Workspace {
  readonly client: Client;
  readonly name: string;
  /** `/v1/workspaces/{workspace}`. */
  readonly path: string;

  constructor(client: Client, name: string) {
    this.client = client;
    this.name = name;
    this.path = `/v1/workspaces/${name}`;
  }

  uploadJobFunction(name: string, script: string): Promise<{ name: string; version: number; contentHash: string }> {
    return this.client.expect('PUT', `${this.path}/job-functions/${encodeURIComponent(name)}`, { body: script });
  }

  async uploadJobFunctions(scripts: Record<string, string>): Promise<void> {
    for (const [name, script] of Object.entries(scripts)) await this.uploadJobFunction(name, script);
  }

  putWorkflow(
    name: string,
    definition: string | { mainJobFunction: string; [option: string]: unknown },
  ): Promise<unknown> {
    const body = typeof definition === 'string' ? { mainJobFunction: definition } : definition;
    return this.client.expect('PUT', `${this.path}/workflows/${name}`, { body });
  }

  putPolicy(name: string, definition: Record<string, unknown> = {}): Promise<unknown> {
    return this.client.expect('PUT', `${this.path}/execution-policies/${name}`, { body: definition });
  }

  /** A policy on its own name. */
  capKey(key: string, maxConcurrentExecutions: number, matchType: 'exact' | 'prefix' = 'exact'): Promise<unknown> {
    return this.putPolicy(key, { matchType, concurrencyPolicy: { maxConcurrentExecutions } });
  }

  async pools(): Promise<LivePool[]> {
    return (await this.client.expect<{ items: LivePool[] }>('GET', `${this.path}/pools`)).items;
  }

  putMachineUser(namespace: string, name: string, body: unknown = {}): Promise<{ id: string }> {
    return this.client.expect('PUT', `${this.path}/machine-users/${namespace}/${name}`, { body });
  }

  /** Starts an execution and answers its id. */
  async start(workflow: string, args?: unknown, options: Record<string, unknown> = {}): Promise<string> {
    const body = { ...(args === undefined ? {} : { args }), ...options };
    const started = await this.client.expect<{ executionId: string }>(
      'POST',
      `${this.path}/workflows/${workflow}/start`,
      {
        body,
      },
    );
    return started.executionId;
  }

  /** Resumes an execution and waits until it is in a final status again. */
  async resume(id: string, body: { code?: 'latest' | 'pinned'; from?: string } = {}): Promise<Execution> {
    await this.client.expect('POST', `${this.path}/executions/${id}/resume`, { body });
    return this.finished(id);
  }

  cancel(id: string): Promise<Answer<Problem>> {
    return this.client.post(`${this.path}/executions/${id}/cancel`, {});
  }

  resolve(id: string, key: string, result?: unknown): Promise<Answer<Problem>> {
    return this.client.post(`${this.path}/executions/${id}/waits/${key}/resolve`, { result });
  }

  /** The log lines of an execution, oldest first. */
  async logs(id: string): Promise<{ message: string; path: string; run: number; level: string }[]> {
    const page = await this.client.expect<{ items: { message: string; path: string; run: number; level: string }[] }>(
      'GET',
      `${this.path}/executions/${id}/logs?limit=200`,
    );
    return page.items;
  }

  getExecution(id: string): Promise<Execution> {
    return this.client.expect('GET', `${this.path}/executions/${id}`);
  }

  /** Starts an execution and waits until it is in a final status. */
  async run(workflow: string, args?: unknown, options: Record<string, unknown> = {}): Promise<Execution> {
    return this.finished(await this.start(workflow, args, options));
  }

  finished(id: string): Promise<Execution> {
    return this.until(id, (execution) => finalStatuses.has(execution.status));
  }

  /** Polls until the execution looks as wanted; the test's own time limit ends it. */
  async until(id: string, wanted: (execution: Execution) => boolean): Promise<Execution> {
    for (let pause = 5; ; pause = Math.min(pause * 1.5, 200)) {
      const execution = await this.getExecution(id);
      if (wanted(execution)) return execution;
      await sleep(pause);
    }
  }
}
