// The functions with which `inspect.js` formats values without parts and reads objects. They read
// only prototypes, keys, property descriptors and internal slots.
//: after describe.js domexception.js
(function (internal) {
  "use strict";

  const { primordials } = internal;
  const {
    BigIntPrototypeToString, Error, FunctionPrototypeToString, JSONStringify, NumberPrototypeToString,
    ObjectGetPrototypeOf, ObjectIs, ReflectApply, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys,
    RegExpPrototypeExec, StringPrototypeIncludes, StringPrototypeIndexOf, StringPrototypeSlice,
    StringPrototypeStartsWith, SymbolPrototypeToString,
  } = primordials;

  // The maximum number of characters of a string that are shown, and the maximum length of an array
  // whose other properties are shown.
  const MAX_STRING = 10_000;
  // A string that is longer is not read: it may have V8's maximum length, and reading it cannot be
  // terminated.
  const MAX_TEXT = 2 ** 25;
  // The maximum number of prototypes that are followed.
  const MAX_CHAIN = 20;
  const IDENTIFIER = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

  // ---- Values without parts

  function quote(string) {
    if (string.length > MAX_TEXT) return `[a string of ${string.length} characters]`;
    if (string.length > MAX_STRING) {
      const left = string.length - MAX_STRING;
      return `${quote(StringPrototypeSlice(string, 0, MAX_STRING))}... ${left} more character${left === 1 ? "" : "s"}`;
    }
    const json = JSONStringify(string);
    if (StringPrototypeIncludes(string, "'")) return json;
    if (!StringPrototypeIncludes(string, '"')) return `'${StringPrototypeSlice(json, 1, -1)}'`;
    // Double quotes between single quotes need no backslash.
    let out = "'";
    for (let i = 1; i < json.length - 1; i++) {
      if (json[i] === "\\") {
        if (json[i + 1] !== '"') out += "\\";
        i++;
      }
      out += json[i];
    }
    return `${out}'`;
  }

  function primitive(value) {
    switch (typeof value) {
      case "string": return quote(value);
      case "number": return ObjectIs(value, -0) ? "-0" : NumberPrototypeToString(value);
      case "bigint": return `${BigIntPrototypeToString(value)}n`;
      case "symbol": return SymbolPrototypeToString(value);
      case "boolean": return value ? "true" : "false";
      case "undefined": return "undefined";
      default: return "null";
    }
  }

  const propertyName = (key) => {
    if (typeof key === "symbol") return `[${SymbolPrototypeToString(key)}]`;
    return RegExpPrototypeExec(IDENTIFIER, key) !== null ? key : quote(key);
  };

  // ---- Reads without side effects

  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  // Returns the kind of an object, which its internal slots determine: "map", "error", "proxy", …,
  // or "object".
  const kindOf = (value) => internal.ops.kindOf(value);
  const isProxy = (value) => kindOf(value) === "proxy";

  const ownData = (object, key) => ReflectGetOwnPropertyDescriptor(object, key)?.value;

  // Returns a string that is an own or inherited data property, or null.
  function inheritedString(object, key) {
    for (let current = object, i = 0; current !== null && i < MAX_CHAIN && !isProxy(current); i++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(current, key);
      if (descriptor !== undefined) return typeof descriptor.value === "string" ? descriptor.value : null;
      current = ObjectGetPrototypeOf(current);
    }
    return null;
  }

  // Returns the class name of an object, which the first prototype with a class name determines;
  // null if the object has no prototype.
  function className(object) {
    let current = ObjectGetPrototypeOf(object);
    if (current === null) return null;
    for (let i = 0; current !== null && i < MAX_CHAIN && !isProxy(current); i++) {
      const constructor = ownData(current, "constructor");
      if (typeof constructor === "function" && !isProxy(constructor)) {
        const name = ownData(constructor, "name");
        if (typeof name === "string" && name !== "") return name;
      }
      current = ObjectGetPrototypeOf(current);
    }
    return "Object";
  }

  function functionTitle(value) {
    const own = ownData(value, "name");
    const name = typeof own === "string" && own !== "" ? own : null;
    if (StringPrototypeStartsWith(FunctionPrototypeToString(value), "class")) {
      const parent = ObjectGetPrototypeOf(value);
      const above = typeof parent === "function" && !isProxy(parent) ? ownData(parent, "name") : undefined;
      const heritage = typeof above === "string" && above !== "" ? ` extends ${above}` : "";
      return `[class ${name ?? "(anonymous)"}${heritage}]`;
    }
    const kind = className(value) ?? "Function";
    return name === null ? `[${kind} (anonymous)]` : `[${kind}: ${name}]`;
  }

  // The getter `flags` reads properties that a Worker may override; the getters of single flags
  // read the expression's internal slots.
  /** @type {[string, (expression: RegExp) => boolean][]} */
  const FLAGS = [
    ["d", primordials.RegExpPrototypeGetHasIndices], ["g", primordials.RegExpPrototypeGetGlobal],
    ["i", primordials.RegExpPrototypeGetIgnoreCase], ["m", primordials.RegExpPrototypeGetMultiline],
    ["s", primordials.RegExpPrototypeGetDotAll], ["u", primordials.RegExpPrototypeGetUnicode],
    ["v", primordials.RegExpPrototypeGetUnicodeSets], ["y", primordials.RegExpPrototypeGetSticky],
  ];
  function flagsOf(expression) {
    let flags = "";
    for (let i = 0; i < FLAGS.length; i++) if (FLAGS[i][1](expression)) flags += FLAGS[i][0];
    return flags;
  }

  // V8 keeps `stack` as a data property or behind one getter of its own, which is safe to call.
  const stackGetter = ReflectGetOwnPropertyDescriptor(new Error(), "stack")?.get;
  function stackOf(error) {
    const descriptor = ReflectGetOwnPropertyDescriptor(error, "stack");
    if (descriptor === undefined) return "";
    const { get, value } = descriptor;
    const stack = get !== undefined && get === stackGetter ? ReflectApply(get, error, []) : value;
    return typeof stack === "string" ? stack : "";
  }

  // V8 wrote the stack when the error was created; the name and the message may have changed since.
  function errorTitle(error, name, message) {
    const header = message === "" ? name : `${name}: ${message}`;
    const stack = stackOf(error);
    const frames = StringPrototypeIndexOf(stack, "\n    at ");
    return frames < 0 ? `[${header}]` : `${header}${StringPrototypeSlice(stack, frames)}`;
  }

  // An empty object takes no more space than its name.
  const isEmpty = (value, kind, name) => (kind === "array" ? value.length === 0
    : kind === "object" && (name === "Object" || name === null) && ReflectOwnKeys(value).length === 0);

  internal.inspection = {
    __proto__: null,
    MAX_STRING, className, errorTitle, flagsOf, functionTitle, inheritedString, isEmpty, isObject, kindOf, ownData,
    primitive, propertyName, stackOf,
  };
})
