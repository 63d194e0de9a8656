import type pg from 'pg';
import type { Logger } from 'pino';
import { openClient } from './database.ts';
import { channel } from './executions.ts';

const reconnectDelayMs = 500;

export interface Notifications {
  stop(): Promise<void>;
}

/**
 * Listens to what the servers tell each other. `onMessage` gets each payload; after a reconnect `onReconnect` is called,
 * since messages may have been missed.
 */
export async function listen(
  url: string,
  logger: Logger,
  handlers: { onMessage: (payload: string) => void; onReconnect: () => void },
): Promise<Notifications> {
  let client: pg.Client | null = null;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  async function connect(): Promise<void> {
    const next = openClient(url);
    next.on('notification', (message) => handlers.onMessage(message.payload ?? ''));
    const onBroken = (error?: Error) => {
      // Before it is connected, `connect` itself rejects; after the first of 'error' and 'end' the other says nothing new.
      if (client !== next) return;
      client = null;
      // The socket may be half open; ending it must not keep anything waiting.
      next.end().catch(() => undefined);
      if (stopped) return;
      logger.warn({ err: error }, 'lost the notification connection to the database; connecting again');
      reconnectLater();
    };
    next.on('error', onBroken);
    next.on('end', () => onBroken());
    await next.connect();
    await next.query(`listen ${channel}`);
    client = next;
  }

  function reconnectLater(): void {
    timer = setTimeout(() => {
      connect().then(handlers.onReconnect, (error: Error) => {
        logger.debug({ err: error }, 'the database is still not reachable');
        if (!stopped) reconnectLater();
      });
    }, reconnectDelayMs);
  }

  await connect();
  return {
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await client?.end();
    },
  };
}
