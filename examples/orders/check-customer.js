export function main({ customer }) {
  const { score } = tailor.workflow.execJobFunction('score-risk', { customer });
  if (score > 90) throw new Error(`${customer} is too much of a risk (${score})`);
  return { risk: score > 50 ? 'medium' : 'low' };
}
