import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';

/**
 * Stands between a server and PostgreSQL, and loses connections when it is told to.
 *
 * - `open`: passes everything on.
 * - `away`: every connection is cut, bytes on their way are lost, and new ones fail.
 * - `stalled`: nothing passes in either direction, and nobody is told: a network that swallows packets. What was sent
 *   meanwhile arrives when it is opened again.
 */
type ProxyMode = 'open' | 'away' | 'stalled';

export interface DatabaseProxy {
  /** Connection string through the proxy. */
  url: string;
  set(mode: ProxyMode): Promise<void>;
  /**
   * Loses the next answer to a prepared statement of this name, or to `commit`: PostgreSQL has carried it out, and the
   * connection is cut before the answer arrives. `wanted` may let answers pass. Resolves when it has happened.
   */
  loseAnswer(statement: string, wanted?: (answer: Buffer) => boolean): Promise<void>;
  close(): Promise<void>;
}

/**
 * @param databaseUrl PostgreSQL, by TCP or by a Unix socket (`?host=/folder`).
 * @param socketFolder where the proxy listens by a Unix socket of its own, whose file is gone while it is `away`; by TCP
 * when it is left out.
 */
export async function startDatabaseProxy(databaseUrl: string, socketFolder?: string): Promise<DatabaseProxy> {
  const target = new URL(databaseUrl);
  const pairs = new Set<{ client: Socket; upstream: Socket }>();
  let mode: ProxyMode = 'open';
  let losing: { sent: Buffer; wanted: (answer: Buffer) => boolean; lost: () => void } | undefined;
  let server: Server | undefined;
  let port = 0;

  function connect(client: Socket): void {
    if (mode === 'away') {
      client.destroy();
      return;
    }
    const folder = target.searchParams.get('host');
    const upstream = folder
      ? createConnection(join(folder, `.s.PGSQL.${target.port || 5432}`))
      : createConnection(Number(target.port || 5432), target.hostname);
    const pair = { client, upstream };
    pairs.add(pair);
    let doomed = false;
    client.on('data', (bytes: Buffer) => {
      if (losing && bytes.includes(losing.sent)) doomed = true;
      upstream.write(bytes);
    });
    upstream.on('data', (bytes: Buffer) => {
      if (doomed && losing?.wanted(bytes)) {
        const { lost } = losing;
        losing = undefined;
        end();
        lost();
        return;
      }
      doomed = false;
      client.write(bytes);
    });
    const end = () => {
      pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.on('close', end);
      // A reset is what this proxy is about; 'close' follows it.
      socket.on('error', () => {});
      if (mode === 'stalled') socket.pause();
    }
  }

  function cut(): void {
    for (const { client, upstream } of pairs) {
      client.destroy();
      upstream.destroy();
    }
  }

  async function listen(): Promise<void> {
    const next = createServer(connect);
    server = next;
    await new Promise<void>((resolve) => {
      if (socketFolder !== undefined) next.listen(join(socketFolder, '.s.PGSQL.5432'), resolve);
      else next.listen(port, '127.0.0.1', resolve);
    });
    const address = next.address();
    if (address !== null && typeof address === 'object') port = address.port;
  }

  async function unlisten(): Promise<void> {
    const closing = server;
    server = undefined;
    cut();
    await new Promise((resolve) => (closing ? closing.close(resolve) : resolve(undefined)));
  }

  await listen();
  const url = new URL(databaseUrl);
  if (socketFolder !== undefined) {
    url.searchParams.set('host', socketFolder);
    url.port = '5432';
  } else {
    url.searchParams.delete('host');
    url.host = `127.0.0.1:${port}`;
  }
  return {
    url: url.href,
    async set(next) {
      const before = mode;
      mode = next;
      if (next === 'away') {
        cut();
        // By TCP it goes on listening, so that nobody else gets its port.
        if (socketFolder !== undefined) await unlisten();
      } else if (before === 'away' && socketFolder !== undefined) {
        await listen();
      }
      for (const { client, upstream } of pairs) {
        for (const socket of [client, upstream]) next === 'stalled' ? socket.pause() : socket.resume();
      }
    },
    loseAnswer(statement, wanted = () => true) {
      return new Promise((lost) => {
        // In a Bind message the statement's name stands behind the empty name of the portal. `commit` is sent as text.
        const sent = statement === 'commit' ? 'commit\0' : `\0${statement}\0`;
        losing = { sent: Buffer.from(sent), wanted, lost };
      });
    },
    close: unlisten,
  };
}
