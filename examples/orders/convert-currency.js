const euroCents = 0.62;

export async function main({ amount, from, to }) {
  await new Promise((resolve) => setTimeout(resolve, 150)); // stands for a call to an exchange
  return { cents: Math.round(amount * euroCents), from, to };
}
