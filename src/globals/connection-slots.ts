/** A run's connections, at most so many at once; who comes later waits in line. */
export interface ConnectionSlots {
  /** Resolves with the function that gives the slot back. Rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<() => void>;
}

export function connectionSlots(max: number): ConnectionSlots {
  let free = max;
  const waiting = new Set<() => void>();

  function giveBack(): void {
    free++;
    const [next] = waiting;
    next?.();
  }

  /** Once, however often it is called. */
  function slot(): () => void {
    free--;
    let held = true;
    return () => {
      if (held) giveBack();
      held = false;
    };
  }

  return {
    take(signal) {
      if (free > 0) return Promise.resolve(slot());
      return new Promise((resolve, reject) => {
        const next = () => {
          stopWaiting();
          resolve(slot());
        };
        const onAbort = () => {
          stopWaiting();
          reject(signal.reason as Error);
        };
        const stopWaiting = () => {
          waiting.delete(next);
          signal.removeEventListener('abort', onAbort);
        };
        waiting.add(next);
        signal.addEventListener('abort', onAbort);
      });
    },
  };
}
