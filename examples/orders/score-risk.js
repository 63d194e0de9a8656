// Something to compute, so that there is something to watch.
export function main({ customer }) {
  let hash = 2166136261;
  for (let round = 0; round < 40_000_000; round++) {
    hash = Math.imul(hash ^ customer.charCodeAt(round % customer.length), 16777619);
  }
  return { score: (hash >>> 0) % 50 };
}
