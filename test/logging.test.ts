import pg from 'pg';
import { pino } from 'pino';
import { expect, inject, test } from 'vitest';
import { describeError } from '../src/logging.ts';

test('an error is logged with type, message, code and stack, without what a library hangs on it', async () => {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  client.on('error', () => undefined);
  const thrown = await client.query('select pg_terminate_backend(pg_backend_pid())').catch((error: unknown) => error);
  // As a pool does.
  const error = Object.assign(thrown as Error, { client });
  const lines: string[] = [];
  pino({ serializers: { err: describeError } }, { write: (line) => void lines.push(line) }).warn(
    { err: error },
    'broke',
  );
  const { err } = JSON.parse(lines[0]!) as { err: Record<string, unknown> };
  expect(Object.keys(err).filter((key) => err[key] !== undefined)).toEqual(['type', 'message', 'code', 'stack']);
  expect(lines[0]!.length).toBeLessThan(3_000);
  expect(describeError(new Error('outer', { cause: new TypeError('inner') }))).toMatchObject({
    type: 'Error',
    cause: { type: 'TypeError', message: 'inner' },
  });
});
