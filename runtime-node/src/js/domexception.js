// DOMException (Web IDL §2.8.1): the error whose name, rather than whose class, says what went wrong.
(function (internal) {
  "use strict";

  const { ErrorCaptureStackTrace, ErrorPrototype, ObjectDefineProperty, ObjectSetPrototypeOf } = internal.primordials;
  const { DOMString, expose, isObject } = internal.webidl;

  // Until the first is made there is none.
  internal.domExceptionParts = () => null;

  internal.exceptions = internal.later(["DOMException"], () => {
    // Names with a legacy code, in the order of their codes from 1; null where a code has no name any more.
    const NAMES = [
      "IndexSizeError", null, "HierarchyRequestError", "WrongDocumentError", "InvalidCharacterError", null,
      "NoModificationAllowedError", "NotFoundError", "NotSupportedError", "InUseAttributeError", "InvalidStateError",
      "SyntaxError", "InvalidModificationError", "NamespaceError", "InvalidAccessError", null, "TypeMismatchError",
      "SecurityError", "NetworkError", "AbortError", "URLMismatchError", "QuotaExceededError", "TimeoutError",
      "InvalidNodeTypeError", "DataCloneError",
    ];
    const CODES = { __proto__: null };
    const CONSTANTS = {
      INDEX_SIZE_ERR: 1, DOMSTRING_SIZE_ERR: 2, HIERARCHY_REQUEST_ERR: 3, WRONG_DOCUMENT_ERR: 4,
      INVALID_CHARACTER_ERR: 5, NO_DATA_ALLOWED_ERR: 6, NO_MODIFICATION_ALLOWED_ERR: 7, NOT_FOUND_ERR: 8,
      NOT_SUPPORTED_ERR: 9, INUSE_ATTRIBUTE_ERR: 10, INVALID_STATE_ERR: 11, SYNTAX_ERR: 12,
      INVALID_MODIFICATION_ERR: 13, NAMESPACE_ERR: 14, INVALID_ACCESS_ERR: 15, VALIDATION_ERR: 16,
      TYPE_MISMATCH_ERR: 17, SECURITY_ERR: 18, NETWORK_ERR: 19, ABORT_ERR: 20, URL_MISMATCH_ERR: 21,
      QUOTA_EXCEEDED_ERR: 22, TIMEOUT_ERR: 23, INVALID_NODE_TYPE_ERR: 24, DATA_CLONE_ERR: 25,
    };
    for (let i = 0; i < NAMES.length; i++) if (NAMES[i] !== null) CODES[NAMES[i]] = i + 1;

    class DOMException {
      #message;
      #name;

      static {
        // The name and the message of a DOMException; null for anything else.
        internal.domExceptionParts = (value) =>
          (isObject(value) && #name in value ? { name: value.#name, message: value.#message } : null);
      }

      constructor(message = "", options = "Error") {
        this.#message = DOMString(message);
        if (isObject(options)) {
          const { name } = options;
          this.#name = name === undefined ? "Error" : DOMString(name);
          if ("cause" in options) {
            const cause = { __proto__: null, value: options.cause, writable: true, configurable: true };
            ObjectDefineProperty(this, "cause", cause);
          }
        } else {
          this.#name = DOMString(options);
        }
        ErrorCaptureStackTrace(this, DOMException);
      }

      get name() {
        return this.#name;
      }

      get message() {
        return this.#message;
      }

      get code() {
        return CODES[this.#name] ?? 0;
      }
    }
    ObjectSetPrototypeOf(DOMException.prototype, ErrorPrototype);
    expose(DOMException, CONSTANTS);

    const { cloners, domExceptionParts } = internal;
    cloners[cloners.length++] = (value) => {
      const parts = domExceptionParts(value);
      if (parts === null) return null;
      const clone = new DOMException(parts.message, parts.name);
      const stack = { __proto__: null, value: internal.stackOf(value), writable: true, enumerable: false, configurable: true };
      ObjectDefineProperty(clone, "stack", stack);
      return clone;
    };
    return { DOMException };
  });

  // For native code.
  internal.hooks.exception = (name, message) => new (internal.exceptions().DOMException)(message, name);
})
