export function main({ total }) {
  throw new Error(`The gift card holds less than ${total}`);
}
