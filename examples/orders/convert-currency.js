export function main({ amount, from, to }) {
  let checksum = amount;
  for (let round = 0; round < 15_000_000; round++) checksum = Math.imul(checksum ^ round, 16777619);
  return { cents: Math.round(amount * 0.62), currency: to, quote: `${from}${to}-${(checksum >>> 0).toString(36)}` };
}
