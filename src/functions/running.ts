interface Entry {
  ended: AbortController;
  work: Set<Promise<unknown>>;
}

/** The invocations of this server that run or wait for a cell, by workspace: for the stop (D30), and a workspace's end (D31). */
export class RunningFunctions {
  readonly #workspaces = new Map<string, Entry>();

  /** Starts work of a workspace under a signal that aborts when the workspace is ended. */
  add<T>(workspaceId: string, start: (ended: AbortSignal) => Promise<T>): Promise<T> {
    const entry = this.#workspaces.get(workspaceId) ?? { ended: new AbortController(), work: new Set() };
    this.#workspaces.set(workspaceId, entry);
    const work = start(entry.ended.signal);
    const remove = () => {
      entry.work.delete(settled);
      if (entry.work.size === 0) this.#workspaces.delete(workspaceId);
    };
    const settled: Promise<unknown> = work.then(remove, remove);
    entry.work.add(settled);
    return work;
  }

  /** Workspaces that something runs or waits for. */
  workspaces(): string[] {
    return [...this.#workspaces.keys()];
  }

  /** Ends what a workspace has here, and whatever it is still asked for. */
  end(workspaceId: string, reason: Error): void {
    this.#workspaces.get(workspaceId)?.ended.abort(reason);
  }

  /** Resolves when everything that runs or waits now has settled. */
  async settled(): Promise<void> {
    await Promise.all([...this.#workspaces.values()].flatMap(({ work }) => [...work]));
  }
}
