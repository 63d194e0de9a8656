export default async ({ orderId, total, paidBy }) => {
  await new Promise((resolve) => setTimeout(resolve, 200));
  return { text: `Order ${orderId}: EUR ${total.toFixed(2)}, paid by ${paidBy}. Thank you!` };
};
