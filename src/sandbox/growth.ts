/**
 * What a body makes its cell grow by, from readings of the cell's resident memory in bytes. Blocked ancestors cannot
 * grow, and what nested bodies held is theirs, so a reading counts from the body's start and without them (sandbox.md,
 * The design, 6).
 */
export interface Growth {
  /** Takes a reading while the body runs. @returns what it has grown by, negative where its cell has shrunk. */
  read(resident: number): number;
  /** The body stands still for a nested one. */
  block(resident: number): void;
  unblock(resident: number): void;
  /** The last and the most that was read. */
  readonly now: number;
  readonly peak: number;
}

export function trackGrowth(base: number): Growth {
  let now = 0;
  let peak = 0;
  /**
   * What nested bodies have left behind. Their isolates are being disposed, so it only becomes less: as soon as the body
   * is seen smaller than when it was blocked, by so much.
   */
  let leftover = 0;
  let whenBlocked = 0;

  const read = (resident: number) => {
    leftover = Math.max(0, Math.min(leftover, resident - base - whenBlocked));
    now = resident - base - leftover;
    peak = Math.max(peak, now);
    return now;
  };
  return {
    read,
    block(resident) {
      whenBlocked = read(resident);
    },
    unblock(resident) {
      leftover = Math.max(0, resident - base - whenBlocked);
      now = resident - base - leftover;
    },
    get now() {
      return now;
    },
    get peak() {
      return peak;
    },
  };
}
