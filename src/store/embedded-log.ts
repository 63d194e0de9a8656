import type { Readable } from 'node:stream';

/** Bytes of a line that are kept: SQL can make PostgreSQL's messages as long as it likes. */
const lineBytes = 4 * 1024;

/** Calls `onLine` with each line of a stream without ever holding more of one than its beginning. */
export function readLines(stream: Readable, onLine: (line: string) => void): void {
  let kept = Buffer.alloc(0);
  let left = 0;

  function keep(bytes: Buffer): void {
    const room = lineBytes - kept.length;
    if (room > 0 && bytes.length > 0) kept = Buffer.concat([kept, bytes.subarray(0, room)]);
    left += Math.max(0, bytes.length - room);
  }

  function endLine(): void {
    onLine(left === 0 ? kept.toString() : `${kept.toString()} … and ${left} bytes more`);
    kept = Buffer.alloc(0);
    left = 0;
  }

  stream.on('data', (bytes: Buffer) => {
    let at = 0;
    for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, at)) {
      keep(bytes.subarray(at, end));
      endLine();
      at = end + 1;
    }
    keep(bytes.subarray(at));
  });
  stream.on('end', () => {
    if (kept.length > 0) endLine();
  });
}
