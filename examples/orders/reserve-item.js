export function main({ sku, quantity }) {
  const price = tailor.workflow.execJobFunction('price-item', { sku });
  return { sku, cents: price.cents * quantity };
}
