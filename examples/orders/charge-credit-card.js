export function main({ orderId, total }) {
  return { method: 'credit card', reference: `${orderId}-${Math.round(total * 100)}` };
}
