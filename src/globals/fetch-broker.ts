import { Agent, type Dispatcher } from 'undici';
import { limits } from '../limits.ts';
import type { AddressRules } from './addresses.ts';
import { boundResponses } from './bounded-responses.ts';
import { connectionSlots } from './connection-slots.ts';
import { Exchange } from './exchange.ts';
import { guardedConnector } from './guarded-connect.ts';
import { type Lookup, nameLookup } from './name-lookup.ts';

export interface FetchBrokerOptions {
  rules: AddressRules;
  /** How long one exchange may take, its wait for a connection included, ms. */
  timeoutMs?: number;
  lookup?: Lookup;
}

/** What fetches for the scripts. Runs share nothing: each has its own connections. */
export interface FetchBroker {
  open(): FetchConnections;
}

/** The connections of one run: at most `fetchConnections`, all closed at its end. */
interface FetchConnections {
  /** An exchange that is yet to be sent. */
  exchange(signal: AbortSignal): Exchange;
  close(): void;
}

/**
 * Scripts' requests go out from the server's process, since a cell has no network. They carry nothing of the server:
 * no credentials, no cookies, and no proxy of the environment.
 */
export function createFetchBroker(options: FetchBrokerOptions): FetchBroker {
  const { rules, timeoutMs = limits.fetchMs, lookup = nameLookup(rules) } = options;
  return {
    open() {
      const slots = connectionSlots(limits.fetchConnections);
      const agents = countingAgents(guardedConnector(rules, lookup));
      return {
        exchange: (signal) => new Exchange({ slots, dispatcher: agents.current, signal, timeoutMs }),
        close: agents.destroy,
      };
    },
  };
}

/**
 * Idle connections are kept for the run's next request to the same origin. When another one would be too many, all that
 * are idle are closed: the agent is replaced, and the old one ends with its last request.
 */
function countingAgents(connect: ReturnType<typeof guardedConnector>) {
  let agent: Agent | undefined;
  const closing = new Set<Agent>();
  let open = 0;

  const make = () =>
    new Agent({
      connect(options, callback) {
        open++;
        connect(options, (...[error, socket]) => {
          if (error !== null) {
            open--;
            callback(error, null);
          } else {
            socket.once('close', () => open--);
            callback(null, socket);
          }
        });
      },
    });

  return {
    current(origin: string): Dispatcher {
      if (agent !== undefined && open >= limits.fetchConnections && !hasIdle(agent, origin)) {
        const old = agent;
        agent = undefined;
        closing.add(old);
        void old.close().finally(() => closing.delete(old));
      }
      agent ??= make();
      return agent.compose(boundResponses);
    },
    destroy(): void {
      for (const each of [...closing, agent]) void each?.destroy();
      agent = undefined;
    },
  };
}

function hasIdle(agent: Agent, origin: string): boolean {
  const stats = agent.stats[origin];
  return stats !== undefined && 'free' in stats && stats.free > 0;
}
