// Modules of Node.js, for Workers with the compatibility flag `nodejs_compat`: their registry, and what they share.
//
//   internal.builtin(names, make)
//                         what `node:<name>` gives for each of the names, as `internal.later` makes it: `make()` gives the
//                         module as `require` would, whose enumerable properties are what can be imported of it
//   internal.node         for the files `node-*.js` among themselves: `invalid(name, kind, value)` and the like make errors
//                         as Node.js does, with a `code`
//   hooks.builtin(name)   [name, value, …] of what a module exports
//
// A Worker that changes what the language offers changes what these modules do, as in Node.js. What a Worker could use to
// reach beyond itself is kept from it as anywhere else (see bootstrap.js): `ops`, and whose the running code is.
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, Error, ObjectDefineProperty, ObjectGetPrototypeOf, RangeError, ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys, StringPrototypeIncludes, StringPrototypeSlice, StringPrototypeStartsWith, SymbolFor, TypeError,
  } = internal.primordials;
  const { hooks } = internal;
  const { isObject } = internal.webidl;

  const SCHEME = "node:";
  const modules = { __proto__: null };

  internal.builtin = (names, make) => {
    let made = null;
    const all = () => (made ??= make());
    for (const name of names) modules[name] = all;
    return all;
  };

  // One within another: `timers/promises`.
  internal.builtinWithin = (name, module, property) => {
    modules[name] = () => module()[property];
  };

  const { lazy } = hooks;
  hooks.lazy = (name) => {
    switch (name) {
      case "Buffer": return internal.node.buffer().Buffer;
      case "clearImmediate": return internal.node.timers().clearImmediate;
      case "global": return globalThis;
      case "process": return internal.node.process();
      case "setImmediate": return internal.node.timers().setImmediate;
    }
    return lazy(name);
  };

  const find = (specifier) => {
    const name = StringPrototypeStartsWith(specifier, SCHEME) ? StringPrototypeSlice(specifier, SCHEME.length) : specifier;
    return modules[name]?.();
  };

  const exportsOf = { __proto__: null };
  hooks.builtin = (specifier) => {
    if (exportsOf[specifier] === undefined) {
      const module = find(specifier);
      if (module === undefined) return undefined;
      const flat = ["default", module];
      const keys = ReflectOwnKeys(module);
      for (let i = 0; i < keys.length; i++) {
        if (typeof keys[i] !== "string" || keys[i] === "default") continue;
        if (!ReflectGetOwnPropertyDescriptor(module, keys[i]).enumerable) continue;
        flat[flat.length] = keys[i];
        flat[flat.length] = module[keys[i]];
      }
      exportsOf[specifier] = flat;
    }
    return exportsOf[specifier];
  };

  // ---- Errors

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

  // What was given instead, in words.
  function given(value) {
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

  // `kind` as in "of type string" or "an instance of Buffer".
  const invalid = (name, kind, value) =>
    coded(TypeError, "ERR_INVALID_ARG_TYPE", `The ${argument(name)} must be ${kind}. Received ${given(value)}`);

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
  function needInteger(value, name, least = -(2 ** 53) + 1, most = 2 ** 53 - 1) {
    if (typeof value !== "number") throw invalid(name, "of type number", value);
    if (value % 1 !== 0) throw outOfRange(name, "an integer", value);
    if (value < least || value > most) throw outOfRange(name, `>= ${least} && <= ${most}`, value);
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
  const refused = (what, why) => coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", `${what} is not to be had in a Worker: ${why}`);

  // What is not on a module's own list of enumerable things, such as the properties of a class's prototype.
  const hidden = (object, properties) => {
    const keys = ReflectOwnKeys(properties);
    for (let i = 0; i < keys.length; i++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(properties, keys[i]);
      descriptor.enumerable = false;
      ObjectDefineProperty(object, keys[i], descriptor);
    }
    return object;
  };

  // What Node.js keeps under `Symbol.for`, by which packages know it.
  const INSPECT = SymbolFor("nodejs.util.inspect.custom");
  const REJECTION = SymbolFor("nodejs.rejection");

  internal.node = {
    __proto__: null,
    INSPECT, REJECTION, abortError, badValue, coded, find, given, hidden, invalid, needFunction, needInteger, needObject,
    needSignal, needString, outOfRange, refused,
  };
})
