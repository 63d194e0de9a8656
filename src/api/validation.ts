import type { FastifySchemaCompiler } from 'fastify';
import { z } from 'zod';
import { type FieldError, JobcellError } from '../errors.ts';

/** Names of fastify's request parts, as the messages say them. */
const partNames: Record<string, string> = {
  body: 'body',
  querystring: 'query',
  params: 'path',
  headers: 'headers',
};

/** Checks one part of a request by its zod schema; what fails is a BAD_REQUEST that names each field. */
export const validatorCompiler: FastifySchemaCompiler<z.ZodType> = ({ schema, httpPart }) => {
  const part = partNames[httpPart ?? ''] ?? 'request';
  return (data) => {
    // fastify hands null to the validator where there is no body
    const parsed = schema.safeParse(data ?? undefined, { error: describeIssue });
    if (parsed.success) return { value: parsed.data };
    return {
      error: badRequest(
        part,
        parsed.error.issues.flatMap((issue) => fieldErrors(issue, part, schema)),
      ),
    };
  };
};

function badRequest(part: string, errors: FieldError[]): JobcellError {
  const list = errors
    .map(({ path, message }) => (path === part ? `it ${message}` : `\`${path}\` ${message}`))
    .join('; ');
  const verb = part === 'headers' ? 'are' : 'is';
  return new JobcellError('BAD_REQUEST', `The ${part} ${verb} not valid: ${list}.`, { errors });
}

/** Of a union, the errors of the form that the value comes nearest to: the one with the fewest. */
function fieldErrors(issue: z.core.$ZodIssue, part: string, schema: z.ZodType): FieldError[] {
  if (issue.code === 'invalid_union') {
    const nearest = issue.errors.toSorted((left, right) => left.length - right.length)[0] ?? [];
    return nearest.flatMap((each) => fieldErrors({ ...each, path: [...issue.path, ...each.path] }, part, schema));
  }
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    const known = path.length === 0 ? fieldsOf(schema) : [];
    const hint = known.length > 0 ? ` (known: ${known.join(', ')})` : '';
    return issue.keys.map((key) => ({ path: [...path, key].join('.'), message: `is not a known field${hint}` }));
  }
  // A key that is no valid name: its own message is one level deeper.
  const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
  return [{ path: path.join('.') || part, message }];
}

const fieldsOf = (schema: z.ZodType): string[] => {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodPrefault) return fieldsOf(schema.unwrap() as z.ZodType);
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
};

/** Messages that follow a field's name, for whatever a schema has no message of its own for. */
function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${article(issue.expected)}`;
    case 'invalid_value':
      return `must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map(String).join(', ')}`;
    case 'too_small':
      return `must ${range('at least', issue.origin, Number(issue.minimum), issue.inclusive)}`;
    case 'too_big':
      return `must ${range('at most', issue.origin, Number(issue.maximum), issue.inclusive)}`;
    case 'unrecognized_keys':
      return 'has unknown fields';
    default:
      return undefined;
  }
}

const article = (type: string): string => {
  const name = type === 'int' ? 'whole number' : type === 'record' ? 'object' : type;
  return `${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name}`;
};

function range(bound: string, origin: string, limit: number, inclusive = true): string {
  if (origin === 'string') return `have ${bound} ${limit} character${limit === 1 ? '' : 's'}`;
  if (origin === 'array') return `have ${bound} ${limit} item${limit === 1 ? '' : 's'}`;
  return inclusive ? `be ${bound} ${limit}` : `be ${bound === 'at least' ? 'more' : 'less'} than ${limit}`;
}
