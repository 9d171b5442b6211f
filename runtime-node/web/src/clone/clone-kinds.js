// What kinds of objects can be cloned (HTML §2.7.3): those of the language by their names, and those that have slots which
// V8 does not tell us of by their prototypes.
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

  // The prototypes of iterators that native code has.
  const iterators = [[].values(), [].values().map(String), ""[Symbol.iterator](), "".matchAll(/x/g)].map(ObjectGetPrototypeOf);

  // What other standards have cloned: each (object) → its clone, or null when it is none of theirs.
  internal.cloners = { __proto__: null, length: 0 };
  // And transferred: each (object) → null, or a function that moves it, and gives what it has become.
  internal.movers = { __proto__: null, length: 0 };

  internal.later("cloneKinds", [], () => {
    // As in ops/clone.rs.
    const PLAIN = 0, FUNCTION = 2, PROXY = 3;
    // A prototype chain is followed this far.
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

    // ---- Objects with slots of their own, known by their prototypes

    // What V8 adds to a context only when that is made. Whoever has replaced it meanwhile deceives themselves alone.
    const ownGlobal = (name) => ObjectGetOwnPropertyDescriptor(globalThis, name)?.value;

    // Of the language, [prototype, name, …]; V8 does not tell them from plain objects.
    const foreign = [];
    for (let i = 0; i < iterators.length; i++) {
      foreign[2 * i] = iterators[i];
      foreign[2 * i + 1] = "Iterator";
    }
    const note = (constructor) => {
      const prototype = typeof constructor === "function" && ops.cloneKind(constructor) === FUNCTION
        ? ObjectGetOwnPropertyDescriptor(constructor, "prototype")?.value : undefined;
      if (!isObject(prototype)) return;
      foreign[foreign.length] = prototype;
      foreign[foreign.length] = ObjectGetOwnPropertyDescriptor(constructor, "name")?.value;
    };
    const noteAll = (namespace) => {
      const object = ownGlobal(namespace);
      if (!isObject(object) || ops.cloneKind(object) !== PLAIN) return;
      const names = ReflectOwnKeys(object);
      for (let i = 0; i < names.length; i++) note(ObjectGetOwnPropertyDescriptor(object, names[i])?.value);
    };
    note(FinalizationRegistry);
    note(WeakRef);
    noteAll("Intl");
    noteAll("Temporal");

    // The name of the interface that an object with this prototype has; null if it is a plain one.
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

    // The class of the errors of this name, and of the views of this kind.
    const errorNamed = (name) => ERRORS[name] ?? Error;
    const arrayNamed = (kind) => ARRAYS[kind] ?? ownGlobal(kind);
    return { arrayNamed, errorNamed, interfaceOf, primitiveOf, refuse };
  });
})
