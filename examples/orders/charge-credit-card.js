export async function main({ orderId, total }) {
  await new Promise((resolve) => setTimeout(resolve, 250)); // stands for the bank
  return { method: 'credit card', reference: `${orderId}-${Math.round(total * 100)}` };
}
