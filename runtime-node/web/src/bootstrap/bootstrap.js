// The first of the scripts that define a Worker's global scope.
//
// Every JavaScript file in `src` is a classic script that holds one function expression. A line
// `//:` in a file says when the file is compiled, and which files must be evaluated before it when
// `build.rs` makes the start-up snapshot. Each function is called once with
// the same `internal` object, through which the files and native code share functions. A Worker
// never sees this object.
//
//   internal.primordials   ECMAScript built-ins, captured before a Worker can change them:
//                          `ArrayPrototypePush(array, x)` is `array.push(x)`, `MapPrototypeGet(map,
//                          k)` is `map.get(k)`; statics are `ObjectKeys`, `JSONStringify`, …. An
//                          isolate keeps only the primordials that late files use (see later.js)
//   internal.ops           native functions. None of them can be called while the snapshot is made
//   internal.globals(obj)  defines every own property of `obj` on the global object, writable and
//                          configurable; properties that are not interfaces are enumerable
//   internal.later(key, names, make)
//                          declares rarely used globals: `make()` returns an object that has the
//                          globals `names`, among others, and is called on the first use of one;
//                          `internal[key]()` returns the same object. `make` may run after a
//                          Worker's code has run, so it must follow the rules below
//   internal.describe(title, is, constructor, names)
//                          makes `console` show the attributes `names` of objects that pass `is`
//   internal.inspect(v)    formats a value for `console`
//   internal.hooks         functions that native code calls, looked up by name once per realm
//
// `types/check.mjs`, which `make lint` runs, infers the types of the values that files put on
// `internal`.
//
// Rules for code here: after a Worker has run, everything reachable from the global object is
// hostile. Use primordials, never methods found through a prototype. On a path that serves a
// request, never use `for…of` over arrays, spread or array destructuring, because they go through
// `Array.prototype[Symbol.iterator]`.
(function (internal) {
  "use strict";

  const { getOwnPropertyDescriptor, defineProperty } = Object;
  const { ownKeys } = Reflect;
  const { bind, call } = Function.prototype;
  const string = String;
  // uncurryThis(f)(self, …args) is f.call(self, …args), even if Function.prototype.call is
  // replaced.
  const uncurryThis = bind.bind(call);

  /** @type {any} */
  const primordials = { __proto__: null, uncurryThis };
  const pascal = (key) =>
    // @ts-expect-error: well-known symbols have descriptions
    typeof key === "symbol" ? `Symbol${key.description[7].toUpperCase()}${key.description.slice(8)}`
      : `${key[0].toUpperCase()}${key.slice(1)}`;

  function capture(object, prefix, wrap) {
    for (const key of ownKeys(object)) {
      // @ts-expect-error: as above
      if (typeof key === "symbol" && !key.description.startsWith("Symbol.")) continue;
      const name = `${prefix}${pascal(key)}`;
      /** @type {any} */
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
  // These statics depend on their receiver, and are therefore bound to it.
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
  internal.hooks = /** @type {any} */ ({ __proto__: null });

  // The name of an interface begins with a capital letter.
  const isMember = (name) => name[0] !== name[0].toUpperCase();
  internal.globals = (object) => {
    for (const key of ownKeys(object)) {
      /** @type {any} */
      const descriptor = getOwnPropertyDescriptor(object, key);
      descriptor.enumerable = isMember(key);
      descriptor.configurable = true;
      if ("value" in descriptor) descriptor.writable = true;
      defineProperty(globalThis, key, descriptor);
    }
  };

  // `inspect.js` replaces this function.
  internal.inspect = (value) => {
    try {
      return typeof value === "string" ? value : string(value);
    } catch {
      return "[value that cannot be shown]";
    }
  };
})
