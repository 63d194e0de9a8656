import { expect, test } from 'vitest';
import { Client } from '../support/client.ts';
import { startServer } from '../support/server.ts';

test('D30: a server that stops answers its long polls with 202, and the execution goes on elsewhere', async () => {
  const server = await startServer();
  const workspace = await new Client(server).createWorkspace();
  await workspace.uploadJobFunction(
    'slow',
    `export const main = async (args) => {
       await new Promise((done) => setTimeout(done, args.ms));
       return 'done';
     };`,
  );
  await workspace.putWorkflow('slow-flow', 'slow');
  const answer = workspace.client.post<{ executionId: string }>(`${workspace.path}/workflows/slow-flow/start?wait=60`, {
    args: { ms: 2_000 },
  });
  // The start has to be stored, or the stop would refuse the request.
  let id: string | undefined;
  while (id === undefined) {
    const list = await workspace.client.expect<{ items: { id: string }[] }>('GET', `${workspace.path}/executions`);
    id = list.items[0]?.id;
  }
  expect(await server.stop()).toBe(0);
  expect(await answer).toMatchObject({ status: 202, body: { executionId: id } });
  await server.restart();
  expect(await workspace.finished(id)).toMatchObject({ status: 'SUCCESS', result: 'done' });
});
