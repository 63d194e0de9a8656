/**
 * Whether two JSON texts mean the same value, whatever the order of their keys (D7). A script builds its arguments anew
 * on every run, so equal text is the rule and parsing the exception.
 */
export function jsonTextEqual(left: string, right: string): boolean {
  return left === right || jsonEqual(JSON.parse(left), JSON.parse(right));
}

function jsonEqual(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false;
  if (Array.isArray(left) || Array.isArray(right)) {
    if (!Array.isArray(left) || !Array.isArray(right) || left.length !== right.length) return false;
    return left.every((item, index) => jsonEqual(item, right[index]));
  }
  const leftEntries = Object.entries(left);
  if (leftEntries.length !== Object.keys(right).length) return false;
  const rightValues = new Map(Object.entries(right));
  return leftEntries.every(([key, value]) => rightValues.has(key) && jsonEqual(value, rightValues.get(key)));
}
