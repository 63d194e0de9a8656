import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a body of a step told the counter server. Times are milliseconds since the epoch, of this machine's one clock. */
export interface Note {
  /** Which execution, by its number in the workload. */
  execution: number;
  step: number;
  /** One run of one body: drawn at random inside it. */
  body: string;
  kind: 'begin' | 'beat' | 'end';
  /** When the body sent it. */
  at: number;
  /** When it arrived. */
  received: number;
}

export interface Counter {
  url: string;
  notes: Note[];
  close(): void;
}

/** The world outside: a web server that writes down what the bodies do. */
export async function startCounter(): Promise<Counter> {
  const notes: Note[] = [];
  const server = createServer((request, response) => {
    const query = new URL(request.url!, 'http://counter').searchParams;
    notes.push({
      execution: Number(query.get('execution')),
      step: Number(query.get('step')),
      body: query.get('body')!,
      kind: query.get('kind') as Note['kind'],
      at: Number(query.get('at')),
      received: Date.now(),
    });
    response.end('noted');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    notes,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
