/** Who waits on this server for an execution to reach a final status. */
export class FinalWaiters {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Calls everybody back who waits for this execution. */
  reached(executionId: string): void {
    const callbacks = this.#waiting.get(executionId);
    this.#waiting.delete(executionId);
    for (const callback of callbacks ?? []) callback();
  }

  /** Calls everybody back: after a reconnect, anything may have been missed. */
  reachedMaybe(): void {
    for (const executionId of [...this.#waiting.keys()]) this.reached(executionId);
  }

  /** @returns a function that takes the callback away again. */
  add(executionId: string, callback: () => void): () => void {
    const callbacks = this.#waiting.get(executionId) ?? new Set();
    callbacks.add(callback);
    this.#waiting.set(executionId, callbacks);
    return () => {
      callbacks.delete(callback);
      if (callbacks.size === 0 && this.#waiting.get(executionId) === callbacks) this.#waiting.delete(executionId);
    };
  }
}
