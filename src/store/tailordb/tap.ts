import type { Duplex } from 'node:stream';

/** What becomes of the rows that a connection receives. */
export interface RowSink {
  /** A row of so many bytes begins. @returns whether it may come; if not, the connection is to be ended. */
  begin(bytes: number): boolean;
  /** Takes bytes of the row. @returns how many; fewer than there are to pause the connection until `resume`. */
  write(bytes: Buffer): number;
}

/** Stands between a PostgreSQL connection and the driver, and takes what scripts can make large away from it. */
export interface Tap {
  /** Rows go there; without a sink nobody wants them. */
  sink: RowSink | undefined;
  /** Goes on after a sink took less than there was. */
  resume(): void;
}

const code = (letter: string) => letter.charCodeAt(0);
const dataRow = code('D');
/** Rows of COPY, notices and notifications: as large and as many as a script likes, and nobody reads them. */
const ignored = new Set(['d', 'N', 'A'].map(code));
/** Every other message is small, unless a script makes it large: an error's text, for example. */
const messageBytes = 1024 * 1024;
const headBytes = 5;

/**
 * pg holds every message whole, and a single row may be a gigabyte. So the rows of this connection are taken out of its
 * stream, byte by byte as they come, and everything else goes on to the driver.
 *
 * @param onTooLarge what the connection sent is larger than it may be: nothing more is read from it.
 */
export function tapConnection(stream: Duplex, onTooLarge: (what: 'message' | 'row') => void): Tap {
  const drivers = stream.listeners('data') as ((bytes: Buffer) => void)[];
  stream.removeAllListeners('data');
  const pass = (bytes: Buffer) => {
    for (const driver of drivers) driver(bytes);
  };

  const head = Buffer.alloc(headBytes);
  let headRead = 0;
  let left = 0;
  let to: 'driver' | 'sink' | 'nobody' = 'driver';
  let waiting: Buffer | undefined;
  let over = false;

  const tap: Tap = {
    sink: undefined,
    resume() {
      const bytes = waiting;
      waiting = undefined;
      if (bytes !== undefined) receive(bytes);
      if (waiting === undefined) stream.resume();
    },
  };

  function receive(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length && !over) {
      if (headRead < headBytes) {
        const taken = bytes.copy(head, headRead, at, at + headBytes - headRead);
        headRead += taken;
        at += taken;
        if (headRead === headBytes) beginMessage();
        continue;
      }
      const part = bytes.subarray(at, at + left);
      const taken = to === 'sink' && tap.sink !== undefined ? tap.sink.write(part) : part.length;
      if (to === 'driver') pass(part);
      at += taken;
      left -= taken;
      if (left === 0) headRead = 0;
      if (taken === part.length) continue;
      waiting = bytes.subarray(at);
      stream.pause();
      return;
    }
  }

  function beginMessage(): void {
    const type = head[0] as number;
    // The length counts itself, but not the type.
    left = head.readInt32BE(1) - 4;
    to = type === dataRow ? 'sink' : ignored.has(type) ? 'nobody' : 'driver';
    const isRow = to === 'sink';
    over = isRow ? tap.sink?.begin(headBytes + left) === false : to === 'driver' && left > messageBytes;
    // A copy: the driver may keep it until the rest of the message is there.
    if (over) onTooLarge(isRow ? 'row' : 'message');
    else if (to === 'driver') pass(Buffer.from(head));
    if (left === 0) headRead = 0;
  }

  stream.on('data', receive);
  return tap;
}
