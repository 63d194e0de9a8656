import type { HostSession } from '../globals/host-operations.ts';
import type { HostAnswer, HostCall } from '../sandbox/protocol.ts';
import type { Body } from './body.ts';

/** The unrecorded calls of a tree's bodies, such as fetch: they run beside each other, and end with the body that made them. */
export class HostCalls {
  readonly #session: HostSession;
  readonly #endings = new Map<Body, AbortController>();
  #ended = false;

  constructor(session: HostSession) {
    this.#session = session;
  }

  handle(body: Body, call: HostCall): Promise<HostAnswer> {
    if (this.#ended) return this.#session.handle(call, AbortSignal.abort());
    let ending = this.#endings.get(body);
    if (!ending) {
      ending = new AbortController();
      this.#endings.set(body, ending);
    }
    return this.#session.handle(call, ending.signal);
  }

  bodyEnded(body: Body): void {
    this.#endings.get(body)?.abort();
    this.#endings.delete(body);
  }

  /** The whole tree has ended. */
  end(): void {
    this.#ended = true;
    for (const body of this.#endings.keys()) this.bodyEnded(body);
    this.#session.close();
  }
}
