// The workflow's main job. It reads like one function, but each execJobFunction runs in an isolate of its own, and its
// result is committed before this script sees it: after a crash or a resume, finished calls answer from the journal.
export async function main({ orderId, customer, items }) {
  const { risk } = tailor.workflow.execJobFunction('check-customer', { customer });
  const lines = items.map((item) => tailor.workflow.execJobFunction('reserve-item', item));
  const total = lines.reduce((sum, line) => sum + line.cents, 0) / 100;
  const payment = pay({ orderId, total });
  // Runs beside this execution, which does not wait for it.
  const receipt = await tailor.workflow.startWorkflow('send-receipt', { orderId, total, paidBy: payment.method });
  return { orderId, risk, items: lines.length, total, paidBy: payment.method, receipt };
}

function pay(order) {
  try {
    return tailor.workflow.execJobFunction('charge-gift-card', order);
  } catch (error) {
    console.warn(`${error.message}; charging the credit card instead`);
    return tailor.workflow.execJobFunction('charge-credit-card', order);
  }
}
