// DOMException (Web IDL §2.8.1): an error that is identified by its name, not by its class. Each
// DOMException is also a native Error, to which private fields are added.
//: after webidl.js
(function (internal) {
  "use strict";

  const {
    Error, ErrorCaptureStackTrace, ErrorPrototype, ObjectDefineProperty, ObjectGetPrototypeOf, ObjectSetPrototypeOf, RangeError,
    ReflectConstruct, ReflectDeleteProperty,
  } = internal.primordials;
  const { DOMString, dictionary, expose, finite, isObject } = internal.webidl;

  // This function is replaced when the first DOMException is needed.
  internal.domExceptionParts = () => null;

  internal.later("exceptions", ["DOMException", "QuotaExceededError"], () => {
    // Names with a legacy code, in the order of their codes from 1; null for a code without a name.
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

    // A base class whose constructor returns its argument, so that a subclass adds its fields to
    // that object.
    /** @type {any} */
    const Given = function (object) {
      return object;
    };
    let nameOf, messageOf;
    class Parts extends Given {
      #message;
      #name;

      static {
        nameOf = (error) => error.#name;
        messageOf = (error) => error.#message;
        // Returns the name and the message of a DOMException, or null for any other value.
        internal.domExceptionParts = (value) =>
          (isObject(value) && #name in value ? { name: value.#name, message: value.#message } : null);
      }

      constructor(error, message, name) {
        super(error);
        this.#message = message;
        this.#name = name;
      }
    }

    class DOMException {
      /** @param {any} [options] a name, or an object */
      constructor(message = "", options = "Error") {
        const text = DOMString(message);
        /** @type {any} */
        const error = ReflectConstruct(Error, [text], new.target);
        // If `new.target` has no prototype object, Error.prototype was used.
        if (ObjectGetPrototypeOf(error) === ErrorPrototype) ObjectSetPrototypeOf(error, prototype);
        if (isObject(options)) {
          const { name } = options;
          new Parts(error, text, name === undefined ? "Error" : DOMString(name));
          if ("cause" in options) {
            const cause = { __proto__: null, value: options.cause, writable: true, configurable: true };
            ObjectDefineProperty(error, "cause", cause);
          }
        } else {
          new Parts(error, text, DOMString(options));
        }
        // The stack's header needs an own `message`, which a DOMException must not have.
        ErrorCaptureStackTrace(error, new.target);
        ReflectDeleteProperty(error, "message");
        return error;
      }

      get name() {
        return nameOf(this);
      }

      get message() {
        return messageOf(this);
      }

      get code() {
        return CODES[nameOf(this)] ?? 0;
      }
    }
    const { prototype } = DOMException;
    ObjectSetPrototypeOf(prototype, ErrorPrototype);
    expose(DOMException, CONSTANTS);

    // Returns the quota and the requested amount of an error; an amount that was not given is null.
    let quotaOf; // (value) → {quota, requested}; null for anything else
    class QuotaExceededError extends DOMException {
      #quota;
      #requested;

      static {
        quotaOf = (value) =>
          (isObject(value) && #quota in value ? { __proto__: null, quota: value.#quota, requested: value.#requested } : null);
      }

      constructor(message = "", options = undefined) {
        const text = DOMString(message);
        const { quota, requested } = dictionary(options, "QuotaExceededError");
        const amount = (value, what) => {
          if (value === undefined) return null;
          const number = finite(value, `QuotaExceededError: ${what}`);
          if (number < 0) throw new RangeError(`QuotaExceededError: ${what} must not be negative`);
          return number;
        };
        const had = amount(quota, "quota");
        const wanted = amount(requested, "requested");
        if (had !== null && wanted !== null && wanted < had) {
          throw new RangeError("QuotaExceededError: requested must not be less than quota");
        }
        super(text, "QuotaExceededError");
        this.#quota = had;
        this.#requested = wanted;
      }

      get quota() {
        return this.#quota;
      }

      get requested() {
        return this.#requested;
      }
    }
    expose(QuotaExceededError);

    const { cloners, domExceptionParts } = internal;
    cloners[cloners.length++] = (value) => {
      const parts = domExceptionParts(value);
      if (parts === null) return null;
      const amounts = quotaOf(value);
      const clone = amounts === null ? new DOMException(parts.message, parts.name)
        : new QuotaExceededError(parts.message, {
          __proto__: null, quota: amounts.quota ?? undefined, requested: amounts.requested ?? undefined,
        });
      const stack = { __proto__: null, value: internal.stackOf(value), writable: true, enumerable: false, configurable: true };
      ObjectDefineProperty(clone, "stack", stack);
      return clone;
    };
    return { DOMException, QuotaExceededError };
  });

  // Native code creates DOMExceptions through this hook.
  internal.hooks.exception = (name, message) => new (internal.exceptions().DOMException)(message, name);
})
