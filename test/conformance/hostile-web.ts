import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';

/** A web server that means no good to whoever fetches from it. */
export interface HostileWeb {
  /** `http://127.0.0.1:port` */
  url: string;
  stop(): void;
}

const chunk = Buffer.alloc(64 * 1024, 'e');
/** 64 MB in 64 KB. */
const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
/** A header of 16 KB, again and again. */
const header = `x-long: ${'h'.repeat(16 * 1024)}\r\n`;
const dripMs = 50;

type Answer = (response: ServerResponse, socket: Socket) => void;
const answers: Record<string, Answer> = {
  '/endless': (response) => void endless(chunk).pipe(response),
  '/bomb': (response) => {
    response.setHeader('content-encoding', 'gzip');
    endless(bomb).pipe(response);
  },
  '/crumbs': (_, socket) => {
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
    endless(Buffer.from('1\r\nc\r\n'.repeat(10_000))).pipe(socket);
  },
  '/announces': (_, socket) => endless(Buffer.from('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000))).pipe(socket),
  '/slow': (response) => drip(response, () => response.write('s')),
  '/slow-head': (_, socket) => {
    socket.write('HTTP/1.1 200 OK\r\n');
    drip(socket, () => socket.write('x: y\r\n'));
  },
  '/headers': (_, socket) => {
    socket.write('HTTP/1.1 200 OK\r\n');
    endless(Buffer.from(header)).pipe(socket);
  },
  '/redirects': (response) => {
    response.writeHead(302, { location: `/redirects?${'r'.repeat(10_000)}` }).end();
  },
};

/** Starts it on a free port of 127.0.0.1. What it does not know it never answers. */
export async function startHostileWeb(): Promise<HostileWeb> {
  const server = createServer((request, response) => {
    const answer = answers[new URL(request.url!, 'http://web').pathname];
    response.on('error', () => undefined);
    answer?.(response, request.socket);
  });
  server.on('connection', (socket) => socket.on('error', () => undefined));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const endless = (bytes: Buffer) =>
  new Readable({
    read() {
      this.push(bytes);
    },
  });

function drip(to: ServerResponse | Socket, drop: () => void): void {
  const timer = setInterval(drop, dripMs);
  to.once('close', () => clearInterval(timer));
}
