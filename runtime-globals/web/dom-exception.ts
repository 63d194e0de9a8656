import { asInterface } from '../interface.ts';
import { captureStackTrace, defineProperty, hidden, IntrinsicError, setPrototypeOf, toDomText } from '../intrinsics.ts';

/** Names that have a number of old. */
const codes = {
  __proto__: null,
  IndexSizeError: 1,
  HierarchyRequestError: 3,
  WrongDocumentError: 4,
  InvalidCharacterError: 5,
  NoModificationAllowedError: 7,
  NotFoundError: 8,
  NotSupportedError: 9,
  InUseAttributeError: 10,
  InvalidStateError: 11,
  SyntaxError: 12,
  InvalidModificationError: 13,
  NamespaceError: 14,
  InvalidAccessError: 15,
  TypeMismatchError: 17,
  SecurityError: 18,
  NetworkError: 19,
  AbortError: 20,
  URLMismatchError: 21,
  QuotaExceededError: 22,
  TimeoutError: 23,
  InvalidNodeTypeError: 24,
  DataCloneError: 25,
} as unknown as Record<string, number | undefined>;

/** Its prototype inherits from Error's, and an instance has a stack; so its class is no subclass of Error. */
export class DOMException {
  readonly #name: string;
  readonly #message: string;

  static {
    setPrototypeOf(DOMException.prototype, IntrinsicError.prototype);
  }

  constructor(message: unknown = '', nameOrOptions: unknown = 'Error') {
    this.#message = toDomText(message);
    const options = typeof nameOrOptions === 'object' && nameOrOptions !== null ? nameOrOptions : undefined;
    const { name = 'Error', cause } = (options ?? { name: nameOrOptions }) as { name?: unknown; cause?: unknown };
    this.#name = toDomText(name);
    captureStackTrace(this, DOMException);
    if (options !== undefined && 'cause' in options) defineProperty(this, 'cause', hidden(cause));
  }

  get name(): string {
    return this.#name;
  }

  get message(): string {
    return this.#message;
  }

  get code(): number {
    return codes[this.#name] ?? 0;
  }
}

asInterface('DOMException', DOMException, {
  clonable: {
    keep: (instance) => {
      const { name, message, stack } = instance as Error;
      return { name, message, stack };
    },
    restore(kept) {
      const { name, message, stack } = kept as Error;
      const made = new DOMException(message, name);
      defineProperty(made, 'stack', hidden(stack));
      return made;
    },
  },
  constants: {
    INDEX_SIZE_ERR: 1,
    DOMSTRING_SIZE_ERR: 2,
    HIERARCHY_REQUEST_ERR: 3,
    WRONG_DOCUMENT_ERR: 4,
    INVALID_CHARACTER_ERR: 5,
    NO_DATA_ALLOWED_ERR: 6,
    NO_MODIFICATION_ALLOWED_ERR: 7,
    NOT_FOUND_ERR: 8,
    NOT_SUPPORTED_ERR: 9,
    INUSE_ATTRIBUTE_ERR: 10,
    INVALID_STATE_ERR: 11,
    SYNTAX_ERR: 12,
    INVALID_MODIFICATION_ERR: 13,
    NAMESPACE_ERR: 14,
    INVALID_ACCESS_ERR: 15,
    VALIDATION_ERR: 16,
    TYPE_MISMATCH_ERR: 17,
    SECURITY_ERR: 18,
    NETWORK_ERR: 19,
    ABORT_ERR: 20,
    URL_MISMATCH_ERR: 21,
    QUOTA_EXCEEDED_ERR: 22,
    TIMEOUT_ERR: 23,
    INVALID_NODE_TYPE_ERR: 24,
    DATA_CLONE_ERR: 25,
  },
});
