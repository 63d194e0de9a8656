import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { problemOf, problemSchema } from '../../src/api/problem.ts';
import { type ErrorCode, errorTable, JobcellError } from '../../src/errors.ts';
import { packageRoot } from '../../src/paths.ts';

const page = readFileSync(join(packageRoot, 'docs', 'errors.md'), 'utf8');
const codes = Object.keys(errorTable) as ErrorCode[];
const sections = new Map(
  page
    .split(/^## /m)
    .slice(1)
    .map((section) => [section.slice(0, section.indexOf('\n')), section] as const),
);

describe('docs/errors.md and the table of errors agree', () => {
  test('one section per code, in the order of the table', () => {
    expect([...sections.keys()]).toEqual(codes);
  });

  test.each(codes)('%s: what it means and what to do', (code) => {
    expect(sections.get(code)!.length).toBeGreaterThan(100);
  });

  test('a section that begins with a status has that of the table', () => {
    for (const [code, section] of sections) {
      const status = /^Status (\d{3})/m.exec(section)?.[1];
      if (status !== undefined) expect(errorTable[code as ErrorCode]).toMatchObject({ status: Number(status) });
    }
  });
});

test('every code an answer can have is in the table with a status, and makes a valid problem', () => {
  const { code } = problemSchema.shape;
  expect(code.options).toEqual(codes.filter((name) => 'status' in errorTable[name]));
  for (const name of code.options) {
    const problem = problemOf(new JobcellError(name, 'What happened.', { errors: [{ path: 'a', message: 'b' }] }));
    expect(problemSchema.parse(problem)).toEqual(problem);
    expect(problem.status).toBe(errorTable[name].status);
  }
});
