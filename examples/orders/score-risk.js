export async function main({ customer }) {
  await new Promise((resolve) => setTimeout(resolve, 300)); // stands for a slow service
  return { score: (customer.length * 7) % 50 };
}
