import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { startWebServer } from './web-server.ts';

/**
 * A web server that bodies of scripts stop at: each asks for `/NAME` and is answered when the test lets it go. So a test
 * sees which bodies are alive, and decides how long.
 */
export interface Gate {
  url: string;
  /** Names of those that stand at it, in the order of their arrival. */
  inside(): string[];
  /** The most that ever stood there at once. */
  most(): number;
  /** Resolves when exactly so many stand there; the test's own time limit ends it. */
  until(count: number): Promise<void>;
  /** Lets those go that stand there (of this name, if given), and no later ones. @returns how many. */
  open(name?: string, count?: number): number;
  /** Lets everybody go from now on. */
  openForGood(): void;
}

/** What a body does at a gate; `url` and `name` are expressions of the script. */
export const standAt = (url: string, name: string) => `await (await fetch(${url} + '/' + ${name})).text()`;

export async function startGate(): Promise<Gate> {
  let standing: { name: string; response: ServerResponse }[] = [];
  let most = 0;
  let isOpen = false;
  const { url } = await startWebServer((request, response) => {
    if (isOpen) {
      response.end('go');
      return;
    }
    const one = { name: decodeURIComponent(request.url!.slice(1)), response };
    standing.push(one);
    most = Math.max(most, standing.length);
    // The body's run was dropped.
    response.on('close', () => {
      standing = standing.filter((other) => other !== one);
    });
  });
  const gate: Gate = {
    url,
    inside: () => standing.map(({ name }) => name),
    most: () => most,
    async until(count) {
      while (standing.length !== count) await sleep(5);
    },
    open(name, count = Number.POSITIVE_INFINITY) {
      const going = standing.filter((one) => name === undefined || one.name === name).slice(0, count);
      standing = standing.filter((one) => !going.includes(one));
      for (const { response } of going) response.end('go');
      return going.length;
    },
    openForGood() {
      isOpen = true;
      gate.open();
    },
  };
  return gate;
}
