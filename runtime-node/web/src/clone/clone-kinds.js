// How `clone.js` recognizes what it clones or refuses (HTML §2.7.3): by kinds that native code
// reports, by the names of errors and typed arrays and, for objects with internal slots that V8
// does not report, by their prototypes.
//: after domexception.js
(function (internal) {
  "use strict";

  const {
    BigInt64Array, BigIntPrototypeValueOf, BigUint64Array, BooleanPrototypeValueOf, Error, EvalError,
    FinalizationRegistry, Float32Array, Float64Array, Int16Array, Int32Array, Int8Array, NumberPrototypeValueOf,
    ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf, ObjectPrototype, RangeError, ReferenceError,
    ReflectOwnKeys, String, StringPrototypeValueOf, SymbolToStringTag, SyntaxError, TypeError, URIError,
    Uint16Array, Uint32Array, Uint8Array, Uint8ClampedArray, WeakRef,
  } = internal.primordials;
  const { isObject } = internal.webidl;
  const { ops } = internal;

  // The results of `ops.cloneKind`, which are the values of `Kind` in clone.rs.
  internal.objectKinds = {
    __proto__: null,
    PLAIN: 0, ARRAY: 1, FUNCTION: 2, PROXY: 3, MAP: 5, SET: 6, DATE: 7, REGEXP: 8, ERROR: 9, WRAPPER: 10,
    ARRAY_BUFFER: 11, TYPED_ARRAY: 12, DATA_VIEW: 13,
  };

  // The prototypes of native iterators.
  const iterators = [[].values(), [].values().map(String), ""[Symbol.iterator](), "".matchAll(/x/g)].map(ObjectGetPrototypeOf);

  // Cloners of other standards, each (object) → its clone, or null if the object belongs to another
  // standard.
  internal.cloners = { __proto__: null, length: 0 };
  // Movers of other standards, each (object) → null, or a function that transfers the object and
  // returns the result.
  internal.movers = { __proto__: null, length: 0 };

  internal.later("cloneKinds", [], () => {
    const { FUNCTION, PLAIN, PROXY } = internal.objectKinds;
    // The maximum number of prototypes that are followed.
    const MAX_CHAIN = 20;

    const ERRORS = {
      __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
    };
    const ARRAYS = {
      __proto__: null, BigInt64Array, BigUint64Array, Float32Array, Float64Array, Int16Array, Int32Array,
      Int8Array, Uint16Array, Uint32Array, Uint8Array, Uint8ClampedArray,
    };

    const refuse = (what) => {
      throw new (internal.exceptions().DOMException)(`${what} cannot be cloned`, "DataCloneError");
    };

    function primitiveOf(wrapper) {
      switch (ops.kindOf(wrapper)) {
        case "stringobject": return StringPrototypeValueOf(wrapper);
        case "numberobject": return NumberPrototypeValueOf(wrapper);
        case "booleanobject": return BooleanPrototypeValueOf(wrapper);
        default: return BigIntPrototypeValueOf(wrapper);
      }
    }

    // ---- Objects with internal slots, known by their prototypes

    // Reads a global that V8 adds when a context is created. A Worker that replaces it affects only
    // itself.
    const ownGlobal = (name) => ObjectGetOwnPropertyDescriptor(globalThis, name)?.value;

    // The ECMAScript built-ins that V8 does not distinguish from plain objects: [prototype, name,
    // …].
    const foreign = [];
    for (let i = 0; i < iterators.length; i++) {
      foreign[2 * i] = iterators[i];
      foreign[2 * i + 1] = "Iterator";
    }
    const addForeign = (constructor) => {
      const prototype = typeof constructor === "function" && ops.cloneKind(constructor) === FUNCTION
        ? ObjectGetOwnPropertyDescriptor(constructor, "prototype")?.value : undefined;
      if (!isObject(prototype)) return;
      foreign[foreign.length] = prototype;
      foreign[foreign.length] = ObjectGetOwnPropertyDescriptor(constructor, "name")?.value;
    };
    const addForeignOf = (namespace) => {
      const object = ownGlobal(namespace);
      if (!isObject(object) || ops.cloneKind(object) !== PLAIN) return;
      const names = ReflectOwnKeys(object);
      for (let i = 0; i < names.length; i++) addForeign(ObjectGetOwnPropertyDescriptor(object, names[i])?.value);
    };
    addForeign(FinalizationRegistry);
    addForeign(WeakRef);
    addForeignOf("Intl");
    addForeignOf("Temporal");

    // Returns the interface name of objects with this prototype, or null for plain objects.
    function interfaceOf(prototype) {
      const { interfaces } = internal;
      let at = prototype;
      for (let i = 0; i < MAX_CHAIN && at !== null && at !== ObjectPrototype && ops.cloneKind(at) !== PROXY; i++) {
        for (let j = 0; j < interfaces.length; j++) {
          if (interfaces[j] === at) return nameOf(ObjectGetOwnPropertyDescriptor(at, SymbolToStringTag)?.value);
        }
        for (let j = 0; j < foreign.length; j += 2) if (foreign[j] === at) return nameOf(foreign[j + 1]);
        at = ObjectGetPrototypeOf(at);
      }
      return null;
    }
    const nameOf = (name) => (typeof name === "string" && name !== "" ? name : "platform object");

    // The error class with this name, and the typed array class with this name.
    const errorNamed = (name) => ERRORS[name] ?? Error;
    const arrayNamed = (kind) => ARRAYS[kind] ?? ownGlobal(kind);
    return { arrayNamed, errorNamed, interfaceOf, primitiveOf, refuse };
  });
})
