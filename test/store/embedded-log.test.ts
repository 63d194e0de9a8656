import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import pg from 'pg';
import { pino } from 'pino';
import { expect, inject, test } from 'vitest';
import { startEmbeddedPostgres } from '../../src/store/embedded.ts';
import { readLines } from '../../src/store/embedded-log.ts';

test('of a line only the beginning is kept, however its bytes come', async () => {
  const stream = new PassThrough();
  const lines: string[] = [];
  readLines(stream, (line) => lines.push(line));
  for (const part of ['one\ntw', 'o\n\n', 'x'.repeat(3_000), 'x'.repeat(3_000), 'x\nlast']) stream.write(part);
  stream.end();
  await new Promise((resolve) => stream.once('close', resolve));
  expect(lines).toEqual(['one', 'two', '', `${'x'.repeat(4_096)} … and 1905 bytes more`, 'last']);
});

test("what SQL makes PostgreSQL write into its log is cut, and has no statement's text", async () => {
  const lines: string[] = [];
  const logger = pino(
    { level: 'debug' },
    { write: (text) => lines.push((JSON.parse(text) as { line?: string }).line ?? '') },
  );
  const folder = mkdtempSync(join(inject('runFolder'), 'embedded-log-'));
  const database = await startEmbeddedPostgres(folder, logger, { durable: false });
  const client = new pg.Client(database.url);
  await client.connect();
  await client.query(`do $$ begin raise warning 'long %', repeat('x', 50000000); end $$`);
  await client.query(`select 1 / 0 as "a statement's text"`).catch(() => undefined);
  await client.end();
  await expect.poll(() => lines.filter((line) => line.includes('division by zero'))).toHaveLength(1);
  expect(lines.find((line) => line.includes('long xxx'))).toMatch(/^WARNING: {2}long x+ … and \d{8} bytes more$/);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(5_000);
  expect(lines.join('\n')).not.toContain("a statement's text");
  await database.stop();
});
