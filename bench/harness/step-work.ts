/** The work of `steps`, `sequential` and `fleet`: job functions that add one, called one after the other. */
import { type Client, putWorkspace } from './server.ts';

/** A classic script, since V8 has a code cache of such ones. */
export const stepScript = `globalThis.main = async (input) => ({ n: input.n + 1 });`;

const mainScript = `globalThis.main = ({ steps }) => {
  let value = { n: 0 };
  for (let i = 0; i < steps; i++) value = tailor.workflow.execJobFunction('step', value);
  if (value.n !== steps) throw new Error('The result is ' + value.n + '.');
  return value;
};`;

export const workspaces = Array.from({ length: 10 }, (_, n) => `bench-${n}`);

/** Workspaces that have the workflow `steps`, which takes `{ steps }`. */
export async function putStepWork(client: Client): Promise<void> {
  for (const workspace of workspaces) {
    await putWorkspace(client, workspace, { steps: mainScript, step: stepScript }, ['steps']);
  }
}
