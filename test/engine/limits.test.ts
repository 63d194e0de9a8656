import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/limits.ts';
import { Client, type Workspace } from '../support/client.ts';
import { startServer } from '../support/server.ts';

/** D24: what would go on without end is ended. The deaths of cells are counted by test/faults/crashes.test.ts. */
let workspace: Workspace;
let database: pg.Client;

beforeAll(async () => {
  const server = await startServer();
  workspace = await new Client(server).createWorkspace();
  database = new pg.Client({ connectionString: server.databaseUrl, options: '-c search_path=jobcell' });
  await database.connect();
  await workspace.uploadJobFunctions({
    quick: `export const main = () => 'quick';`,
    endless: `export const main = () => new Promise(() => setTimeout(() => {}, 3_600_000));`,
    looping: `export const main = () =>
      [tailor.workflow.execJobFunction('quick'), tailor.workflow.execJobFunction('endless')];`,
    grows: `export const main = () => {
      tailor.workflow.wait('the-key');
      try { tailor.workflow.execJobFunction('quick'); } catch {}
      return 'caught';
    };`,
  });
  for (const name of ['looping', 'grows']) await workspace.putWorkflow(name, name);
});
afterAll(() => database.end());

test('D24: the tenth takeover in a row without a new record ends an execution, one with a record does not', async () => {
  const id = await workspace.start('looping');
  const stands = () => workspace.until(id, ({ status, stack }) => status === 'FAILED' || stack.at(-1) === 'endless');
  /** As its server leaves it that died: held under a lease that has run out. */
  const die = async (takeovers: number, records: number) => {
    await stands();
    const { rows } = await database.query<{ fence: string }>(
      `with s as (
         insert into servers (id, expires_at) values (gen_random_uuid(), now() - interval '1 second') returning id)
       update executions e set holder = s.id, takeovers = $2, takeover_records = $3 from s where e.id = $1 returning fence`,
      [id, takeovers, records],
    );
    await workspace.until(id, () => true);
    for (let taken = false; !taken; ) {
      const now = await database.query('select from executions where id = $1 and fence > $2', [id, rows[0]!.fence]);
      taken = now.rowCount === 1;
    }
  };
  // There is a record more than at the takeover before: the count begins anew.
  await die(limits.takeoversWithoutProgress - 1, 0);
  expect(await stands()).toMatchObject({ status: 'RUNNING' });
  await die(limits.takeoversWithoutProgress - 1, 1);
  const given = await workspace.finished(id);
  expect(given).toMatchObject({ status: 'FAILED', error: { code: 'CRASH_LOOP', kind: 'PLATFORM', at: 'looping' } });
  expect(given.error!.message).toContain(`${limits.takeoversWithoutProgress} servers in a row`);
});

describe('D24: a journal without bounds ends its execution, which no catch of a script prevents', () => {
  /** Records that no call of main answers from. The others copy the first one's arguments, which are compressed once. */
  async function insert(id: string, records: number, args: string): Promise<void> {
    const rows = (first: number, last: number, value: string) =>
      database.query(
        `insert into journal (workspace_id, execution_id, path, parent_path, position, id, kind, name, args, status,
                              started_at, finished_at)
         select e.workspace_id, e.id, 'grows/x/' || n, 'grows/x', n, gen_random_uuid(), 'job', 'x', ${value}, 'SUCCESS',
                now(), now()
         from executions e, generate_series(${first}, ${last}) n where e.id = $1`,
        [id],
      );
    await rows(1, 1, args);
    await rows(2, records, `(select args from journal where execution_id = $1 and path = 'grows/x/1')`);
  }

  test.each([
    // main and its wait are records, too
    ['records', limits.journalRecords - 2, `'{}'`],
    ['bytes', limits.journalBytes / limits.payloadBytes, `repeat('x', ${limits.payloadBytes})`],
  ])('by its %s', async (_, count, args) => {
    const id = await workspace.start('grows');
    await workspace.until(id, (execution) => execution.status === 'WAITING');
    await insert(id, count, args);
    await workspace.resolve(id, 'the-key');
    const { status, error } = await workspace.finished(id);
    expect({ status, error }).toMatchObject({ status: 'FAILED', error: { code: 'JOURNAL_LIMIT', at: 'grows' } });
  });
});
