export default ({ orderId, total, paidBy }) => ({
  text: `Order ${orderId}: EUR ${total.toFixed(2)}, paid by ${paidBy}. Thank you!`,
});
