import { type ChildProcess, spawn } from 'node:child_process';

/** Keeps the ids it is told, and kills those processes when its standard input closes. */
const script = `
while read -r verb pid; do
  case $verb in
    add) pids="$pids $pid" ;;
    remove) kept=; for each in $pids; do [ "$each" = "$pid" ] || kept="$kept $each"; done; pids=$kept ;;
  esac
done
[ -z "$pids" ] || kill -KILL $pids
`;

let reaper: ChildProcess | undefined;

function tell(line: string): void {
  reaper ??= spawn('/bin/sh', ['-c', script, 'jobcell-test-reaper'], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // A session of its own: Ctrl+C in a terminal must not end it before its work is done.
    detached: true,
  });
  reaper.unref();
  (reaper.stdin as unknown as { unref(): void }).unref();
  reaper.stdin!.write(`${line}\n`);
}

/** The child is killed when this process ends, however it ends: vitest kills a worker that takes too long. */
export function endWithThisProcess(child: ChildProcess): void {
  const { pid } = child;
  // It could not be started.
  if (pid === undefined) return;
  tell(`add ${pid}`);
  child.once('exit', () => tell(`remove ${pid}`));
}
