// The first of the scripts that make up a Worker's world.
//
// Every file of this directory is a classic script holding one function expression. `order.txt` names the files,
// in the order in which they are evaluated, when the node is built, into the start-up snapshot; each function is
// called once with the same `internal` object, through which the files know each other and native code knows
// them. A Worker never sees it.
//
//   internal.primordials   what the language itself offers, captured before a Worker can change it:
//                          `ArrayPrototypePush(array, x)` is `array.push(x)`, `MapPrototypeGet(map, k)` is
//                          `map.get(k)`; statics are `ObjectKeys`, `JSONStringify`, …. In an isolate there are those
//                          that late files want (see later.js)
//   internal.ops           native functions. None can be called while the snapshot is made.
//   internal.globals(obj)  defines every own property of `obj` on the global object as the platform does: all are
//                          writable and configurable, and enumerable are those that are no interfaces.
//   internal.later(key, names, make)
//                          what few Workers use: `make()` gives an object that has, among others, these names of the
//                          global object, when the first of them is wanted; `internal[key]()` gives that object to others.
//                          It may be made after a Worker's code has run, so it keeps to the rules below.
//   internal.describe(title, is, constructor, names)
//                          has `console` show these attributes of what `is` says is of the class
//   internal.inspect(v)    how `console` shows a value
//   internal.hooks         functions that native code calls, fetched once per isolate by name
//
// Rules for code here: after a Worker has run, everything reachable from the global object is hostile. Use
// primordials, never methods found through a prototype; never `for…of` over arrays, spread or array
// destructuring (they go through `Array.prototype[Symbol.iterator]`) on a path that serves a request.
(function (internal) {
  "use strict";

  const { getOwnPropertyDescriptor, defineProperty } = Object;
  const { ownKeys, apply } = Reflect;
  const { bind, call } = Function.prototype;
  const string = String;
  // uncurryThis(f)(self, …args) is f.call(self, …args), whatever has become of Function.prototype.call.
  const uncurryThis = bind.bind(call);

  const primordials = { __proto__: null, uncurryThis };
  const pascal = (key) =>
    typeof key === "symbol" ? `Symbol${key.description[7].toUpperCase()}${key.description.slice(8)}`
      : `${key[0].toUpperCase()}${key.slice(1)}`;

  function capture(object, prefix, wrap) {
    for (const key of ownKeys(object)) {
      if (typeof key === "symbol" && !key.description.startsWith("Symbol.")) continue;
      const name = `${prefix}${pascal(key)}`;
      const descriptor = getOwnPropertyDescriptor(object, key);
      if ("get" in descriptor) {
        if (descriptor.get) primordials[`${prefix}Get${pascal(key)}`] = uncurryThis(descriptor.get);
        continue;
      }
      const { value } = descriptor;
      primordials[name] = wrap && typeof value === "function" ? uncurryThis(value) : value;
    }
  }

  for (const name of ["JSON", "Math", "Reflect"]) {
    capture(globalThis[name], name, false);
  }
  const constructors = [
    "AggregateError", "Array", "ArrayBuffer", "BigInt", "BigInt64Array", "BigUint64Array", "Boolean", "DataView",
    "Date", "Error", "EvalError", "FinalizationRegistry", "Float32Array", "Float64Array", "Function", "Int16Array",
    "Int32Array", "Int8Array", "Map", "Number", "Object", "Promise", "Proxy", "RangeError", "ReferenceError",
    "RegExp", "Set", "String", "Symbol", "SyntaxError", "TypeError", "URIError", "Uint16Array", "Uint32Array",
    "Uint8Array", "Uint8ClampedArray", "WeakMap", "WeakRef", "WeakSet",
  ];
  for (const name of constructors) {
    const constructor = globalThis[name];
    if (!constructor) continue;
    primordials[name] = constructor;
    capture(constructor, name, false);
    if (constructor.prototype) capture(constructor.prototype, `${name}Prototype`, true);
  }
  // Statics that depend on their receiver.
  for (const name of ["all", "allSettled", "any", "race", "reject", "resolve", "withResolvers"]) {
    primordials[`Promise${pascal(name)}`] = Promise[name].bind(Promise);
  }
  primordials.ArrayFrom = Array.from.bind(Array);
  primordials.ArrayOf = Array.of.bind(Array);
  const TypedArray = Object.getPrototypeOf(Uint8Array);
  capture(TypedArray.prototype, "TypedArrayPrototype", true);
  primordials.TypedArray = TypedArray;
  const iterator = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
  primordials.IteratorPrototype = iterator;
  primordials.AsyncIteratorPrototype = Object.getPrototypeOf(
    Object.getPrototypeOf(async function* () {}).prototype,
  );
  primordials.ArrayIteratorPrototype = Object.getPrototypeOf([][Symbol.iterator]());
  for (const name of ["parseInt", "parseFloat", "isNaN", "isFinite", "decodeURI", "decodeURIComponent", "encodeURI",
    "encodeURIComponent"]) {
    primordials[name] = globalThis[name];
  }

  internal.primordials = Object.freeze(primordials);
  internal.hooks = { __proto__: null };

  // An interface's name begins with a capital.
  const isMember = (name) => name[0] !== name[0].toUpperCase();
  internal.globals = (object) => {
    for (const key of ownKeys(object)) {
      const descriptor = getOwnPropertyDescriptor(object, key);
      descriptor.enumerable = isMember(key);
      descriptor.configurable = true;
      if ("value" in descriptor) descriptor.writable = true;
      defineProperty(globalThis, key, descriptor);
    }
  };

  // Replaced by `inspect.js`.
  internal.inspect = (value) => {
    try {
      return typeof value === "string" ? value : string(value);
    } catch {
      return "[value that cannot be shown]";
    }
  };
})
