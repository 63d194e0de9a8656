import { z } from 'zod';
import { limits } from '../limits.ts';
import { ownNamePattern, ownNameRule } from '../own-names.ts';
import { namePattern, nameRule } from '../sandbox/call-grammar.ts';
import { RawJson } from './json.ts';

/** Pieces that several resources share: names, lists, values. Messages follow the field's name: "`limit` must be ...". */

const resourceNamePattern = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/;

/** behaviour.md 4: workspaces, workflows. */
export const resourceName = z
  .string()
  .regex(resourceNamePattern, 'must be 3 to 63 characters of a-z, 0-9 and -, and neither begin nor end with -');

/** behaviour.md 4: job functions, and functions likewise. Surrogates without their other half have no UTF-8 and cannot be stored. */
export const jobFunctionName = z.string().regex(namePattern, nameRule);

/** Namespaces, machine users, vaults, secrets. */
export const ownName = z.string().regex(ownNamePattern, ownNameRule);

export const scriptVersion = z.coerce.number().int().min(1).max(2_147_483_647);

export const workspaceParams = z.object({ workspace: z.string() });

export const listQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(limits.listMax).default(limits.listDefault),
  cursor: z.string().optional().describe('`nextCursor` of the page before'),
});

/** A list's answer: one page of items, and what leads to the next. */
export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    items: z.array(item),
    nextCursor: z.string().nullable().describe('Give it as `cursor` to get the next page; null on the last one'),
  });

export const timestamp = z.iso.datetime({ precision: 3 });
export const optionalTimestamp = timestamp.nullable();
export const toTimestamp = (date: Date): string => date.toISOString();
export const toOptionalTimestamp = (date: Date | null): string | null => date?.toISOString() ?? null;

/** Milliseconds as an answer shows them. */
export const toTenths = (ms: number): number => Math.round(ms * 10) / 10;

/** Stored JSON of a shape that the server does not look into (D33); the schema only describes it. */
const rawJson = () => z.custom<RawJson | null>(() => true);

/** A value a script made, in full. */
export const anyJson = rawJson().describe('Any JSON value');

export const truncatedSchema = z
  .object({
    truncated: z.literal(true),
    size: z.int().describe('Bytes of the whole value as JSON text'),
  })
  .meta({ id: 'TruncatedValue' });

/** A value a script made, up to 16 KB. */
export const embeddedJson = z
  .custom<RawJson | z.infer<typeof truncatedSchema> | null>(() => true)
  .describe(
    `Any JSON value; above ${limits.embeddedValueBytes / 1024} KB \`{ "truncated": true, "size": bytes }\` in its place. The job execution has it in full.`,
  );

const errorProperties = {
  name: { type: 'string' },
  message: { type: 'string' },
  stack: { type: 'string' },
  kind: { type: 'string', enum: ['NONE', 'USER_RUNTIME', 'USER_NON_RUNTIME', 'PLATFORM'] },
  code: { type: 'string', description: 'A code of docs/errors.md' },
  at: { type: 'string', description: 'Stacked job name where it came from' },
} as const;

/** What made an execution or a step fail. Raw too: it is stored as it was made. */
export const executionError = rawJson().meta({
  description: 'What made it fail; null when nothing did',
  type: ['object', 'null'],
  properties: {
    ...errorProperties,
    previousError: {
      description: 'Of an ARGUMENT_MISMATCH that ended a resume: what had made the execution fail before it (D8)',
      type: 'object',
      properties: errorProperties,
    },
  },
});

export const toRawJson = (text: string | null): RawJson | null => (text === null ? null : new RawJson(text));

export function toEmbeddedJson(
  value: { text: string | null; size: number } | null,
): RawJson | z.infer<typeof truncatedSchema> | null {
  if (value === null) return null;
  return value.text === null ? { truncated: true, size: value.size } : new RawJson(value.text);
}
