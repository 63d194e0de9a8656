import { Client, type Workspace } from '../support/client.ts';
import { startServer, type TestServer } from '../support/server.ts';

export const namespace = 'main-db';

export interface Invoked {
  result: unknown;
  code?: string;
  detail?: string;
  error?: { name: string; message: string; stack: string; code: string };
}

/** A workspace with a namespace, and scripts that use it. */
export class Namespaced {
  readonly server: TestServer;
  readonly client: Client;
  readonly workspace: Workspace;

  constructor(server: TestServer, workspace: Workspace) {
    this.server = server;
    this.client = workspace.client;
    this.workspace = workspace;
  }

  path(name = namespace): string {
    return `${this.workspace.path}/tailordb/${name}`;
  }

  migrate(sql: string, name = namespace): Promise<unknown> {
    return this.client.expect('POST', `${this.path(name)}/sql`, { body: { sql } });
  }

  /** Runs the body of an asynchronous function with a connected client `db`, under the limits of a job function. */
  async run(body: string, type = 'JOB'): Promise<Invoked> {
    const script = `export const main = async () => {
    const db = new tailordb.Client({ namespace: '${namespace}' });
    await db.connect();
    ${body}
  };`;
    return (await this.client.post<Invoked>(`${this.workspace.path}/functions/test-run`, { script, type })).body;
  }

  /** What it answers; an error of the script fails the test. */
  async result(body: string, type?: string): Promise<unknown> {
    const answer = await this.run(body, type);
    if (answer.error !== undefined) throw new Error(`${answer.error.message}\n${answer.error.stack}`);
    if (answer.code !== undefined) throw new Error(answer.detail);
    return answer.result;
  }

  /** The failure of one statement, as a script sees it. */
  failure(sql: string, args = '[]'): Promise<unknown> {
    return this.result(`try { await db.queryObject(${JSON.stringify(sql)}, ${args}); } catch (error) {
      const { name, message, code, position = null, detail = null } = error;
      return { name, message, code, position, detail };
    }`);
  }
}

/** A server, a workspace on it and a namespace of that, with these tables. */
export async function startNamespaced(
  tables?: string,
  options: Parameters<typeof startServer>[0] = {},
): Promise<Namespaced> {
  const server = await startServer(options);
  return addNamespaced(server, tables);
}

/** Another workspace on the same server. */
export async function addNamespaced(server: TestServer, tables?: string): Promise<Namespaced> {
  const workspace = await new Client(server).createWorkspace();
  const made = new Namespaced(server, workspace);
  await made.client.expect('PUT', made.path());
  if (tables !== undefined) await made.migrate(tables);
  return made;
}
