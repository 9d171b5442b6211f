// Shared code of the Node.js modules: errors with a `code`, and the argument checks that throw
// them.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, Error, ObjectDefineProperty, ObjectGetPrototypeOf, RangeError, ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys, StringPrototypeIncludes, StringPrototypeSlice, SymbolFor, TypeError,
  } = internal.primordials;
  const { isObject } = internal.webidl;

  // ---- Errors

  // Creates an error with a code, which its stack also shows.
  function coded(Constructor, code, message) {
    const error = new Constructor(message);
    error.code = code;
    const { stack } = error;
    if (typeof stack === "string") {
      const text = `${Constructor.name} [${code}]${StringPrototypeSlice(stack, Constructor.name.length)}`;
      ObjectDefineProperty(error, "stack", {
        __proto__: null, value: text, writable: true, enumerable: false, configurable: true,
      });
    }
    return error;
  }

  // Describes a value as Node.js's error messages do.
  function described(value) {
    if (value === undefined || value === null) return `${value}`;
    if (typeof value === "function") return `function ${value.name}`;
    if (typeof value === "object") {
      const constructor = ObjectGetPrototypeOf(value) === null ? undefined : value.constructor;
      return typeof constructor?.name === "string" && constructor.name !== ""
        ? `an instance of ${constructor.name}` : internal.inspect(value);
    }
    return `type ${typeof value} (${internal.inspect(value)})`;
  }

  const argument = (name) => (StringPrototypeIncludes(name, ".") ? `"${name}" property` : `"${name}" argument`);

  // Returns the error for an argument of a wrong type. `kind` is a phrase such as "of type string"
  // or "an instance of Buffer".
  const invalid = (name, kind, value) =>
    coded(TypeError, "ERR_INVALID_ARG_TYPE", `The ${argument(name)} must be ${kind}. Received ${described(value)}`);

  const badValue = (name, value, why = "is invalid") =>
    coded(TypeError, "ERR_INVALID_ARG_VALUE", `The ${argument(name)} ${why}. Received ${internal.inspect(value)}`);

  const outOfRange = (name, range, value) => {
    const received = typeof value === "bigint" ? `${value}n` : typeof value === "number" ? `${value}` : internal.inspect(value);
    return coded(RangeError, "ERR_OUT_OF_RANGE",
      `The value of "${name}" is out of range. It must be ${range}. Received ${received}`);
  };

  function needString(value, name) {
    if (typeof value !== "string") throw invalid(name, "of type string", value);
    return value;
  }
  function needFunction(value, name) {
    if (typeof value !== "function") throw invalid(name, "of type function", value);
    return value;
  }
  function needObject(value, name) {
    if (!isObject(value) || ArrayIsArray(value) || typeof value === "function") {
      throw invalid(name, "of type object", value);
    }
    return value;
  }
  function needInteger(value, name, min = -(2 ** 53) + 1, max = 2 ** 53 - 1) {
    if (typeof value !== "number") throw invalid(name, "of type number", value);
    if (value % 1 !== 0) throw outOfRange(name, "an integer", value);
    if (value < min || value > max) throw outOfRange(name, `>= ${min} && <= ${max}`, value);
    return value;
  }
  function abortError(signal) {
    const error = coded(Error, "ABORT_ERR", "The operation was aborted");
    error.name = "AbortError";
    const reason = signal === undefined ? undefined : internal.abort().abortReason(signal);
    if (reason !== undefined) error.cause = reason;
    return error;
  }
  function needSignal(value, name) {
    if (!internal.abort().isAbortSignal(value)) throw invalid(name, "an instance of AbortSignal", value);
    return value;
  }
  const refused = (what, why) => coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", `${what} is not available in a Worker: ${why}`);

  // Defines properties as not enumerable, like the members of a class's prototype.
  const defineHidden = (object, properties) => {
    const keys = ReflectOwnKeys(properties);
    for (let i = 0; i < keys.length; i++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(properties, keys[i]);
      descriptor.enumerable = false;
      ObjectDefineProperty(object, keys[i], descriptor);
    }
    return object;
  };

  // Symbols that packages look up with `Symbol.for`.
  const INSPECT = SymbolFor("nodejs.util.inspect.custom");
  const REJECTION = SymbolFor("nodejs.rejection");

  internal.define("shared", () => ({
    __proto__: null,
    INSPECT, REJECTION, abortError, badValue, coded, defineHidden, invalid, needFunction, needInteger, needObject,
    needSignal, needString, outOfRange, refused,
  }));
})
