import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll } from 'vitest';

/** A real web server on a free port of 127.0.0.1, for scripts to fetch from; closed after the file's last test. */
export interface WebServer {
  port: number;
  /** `http://127.0.0.1:port` */
  url: string;
  server: Server;
}

export async function startWebServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  address = '127.0.0.1',
): Promise<WebServer> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://${address}:${port}`, server };
}

export async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk as string;
  return text;
}
