/** Runs one piece of work after the other, whatever becomes of each: what asks the server for much waits for its answer. */
export function inTurn(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> | undefined;
  return (work) => {
    const made = after(last, work);
    last = made;
    return made;
  };
}

async function after<T>(before: Promise<unknown> | undefined, work: () => Promise<T>): Promise<T> {
  try {
    await before;
  } catch {
    // Its own caller hears of it.
  }
  return work();
}
