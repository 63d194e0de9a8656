interface Command {
  id: number;
  command: string;
  args: never;
}

/** A peer's side of bench/harness/peer.ts: carries out the commands that come, one after the other, and answers them. */
export function serve(commands: Record<string, (args: never) => Promise<unknown>>): void {
  let last = Promise.resolve();
  process.on('message', ({ id, command, args }: Command) => {
    last = last.then(async () => {
      try {
        process.send!({ id, result: command === 'ready' ? null : await commands[command]!(args) });
      } catch (error) {
        process.send!({ id, error: (error as Error).stack ?? String(error) });
      }
    });
  });
  process.on('SIGTERM', () => process.exit(0));
}
