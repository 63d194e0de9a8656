import { typeError } from '../errors.ts';
import { defineProperty, hidden, IntrinsicError, isArray, stringifyJson } from '../intrinsics.ts';

interface ErrorItem {
  message: string;
  path: unknown[];
}

/** `new TailorErrors([{ message, path }])`: several errors, each at a path of the input (behaviour.md 2). */
export class TailorErrors extends IntrinsicError {
  readonly errors: ErrorItem[];

  constructor(errors: ErrorItem[]) {
    if (!isArray(errors)) throw typeError('TailorErrors: errors must be an array');
    for (let i = 0; i < errors.length; i++) {
      const item = errors[i] as Partial<ErrorItem> | null | undefined;
      if (typeof item?.message !== 'string') throw typeError(`TailorErrors: errors[${i}].message must be a string`);
      if (!isArray(item.path)) throw typeError(`TailorErrors: errors[${i}].path must be an array`);
    }
    super(`TailorErrors: ${stringifyJson({ errors })}`);
    this.errors = errors;
  }
}

export class TailorErrorMessage extends IntrinsicError {}

defineProperty(TailorErrors.prototype, 'name', hidden('TailorErrors'));
defineProperty(TailorErrorMessage.prototype, 'name', hidden('TailorErrorMessage'));
