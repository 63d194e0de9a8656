export function main({ orderId, total, paidBy }) {
  const { text } = tailor.workflow.execJobFunction('render-receipt', { orderId, total, paidBy });
  return { sent: true, characters: text.length };
}
