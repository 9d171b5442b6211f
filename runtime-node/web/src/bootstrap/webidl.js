// Web IDL: conversion of arguments, the shape of members, and iterable interfaces. The files after
// this one use it to implement individual interfaces.
//: eager, after arraybuffer.js bounds-end.js later.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, ArrayBufferPrototypeGetByteLength, ArrayPrototypeIncludes, BigInt, BigIntAsIntN,
    DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength, DataViewPrototypeGetByteOffset, IteratorPrototype,
    MathAbs, MathFloor, MathMax, MathMin, MathTrunc, Number, NumberIsFinite, NumberIsNaN, ObjectDefineProperty,
    ObjectFreeze, ObjectPrototypePropertyIsEnumerable, ObjectSetPrototypeOf,
    RegExpPrototypeExec, ReflectApply, RangeError, ReflectOwnKeys, StringPrototypeToWellFormed, SymbolIterator,
    SymbolToStringTag, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength,
    TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetSymbolToStringTag, Uint8Array,
  } = internal.primordials;

  // ---- Arguments

  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";

  function needs(given, wanted, what) {
    if (given < wanted) {
      throw new TypeError(`${what}: ${wanted} argument${wanted === 1 ? "" : "s"} required, but only ${given} present`);
    }
  }

  // The maximum length of a string, in UTF-16 code units. A longer string is cheap to build by
  // doubling, but native code that reads it cannot be terminated.
  const MAX_STRING = 2 ** 25;

  function DOMString(value) {
    const string = typeof value === "string" ? value : `${value}`;
    if (string.length > MAX_STRING) throw new RangeError(`A string of ${string.length} characters is too long`);
    return string;
  }
  const USVString = (value) => StringPrototypeToWellFormed(DOMString(value));

  const NOT_LATIN1 = /[^\x00-\xff]/;
  function ByteString(value, what) {
    const string = DOMString(value);
    if (RegExpPrototypeExec(NOT_LATIN1, string) !== null) {
      throw new TypeError(`${what}: '${string}' has a character that is not in the range of a byte`);
    }
    return string;
  }

  // Converts to an unsigned integer of `bits` bits, at most 32. A number that is out of range wraps
  // around, as without [EnforceRange].
  function unsigned(value, bits) {
    const number = +value;
    if (!NumberIsFinite(number)) return 0;
    const size = 2 ** bits;
    const wrapped = MathTrunc(number) % size;
    return wrapped < 0 ? wrapped + size : wrapped + 0;
  }

  // Converts to a `long long`. A number that is out of range wraps around as well. The result is
  // exact below 2⁵³.
  function longLong(value) {
    const number = +value;
    if (!NumberIsFinite(number)) return 0;
    const integer = MathTrunc(number) + 0;
    return MathAbs(integer) < 2 ** 63 ? integer : Number(BigIntAsIntN(64, BigInt(integer)));
  }

  // Converts to a `long long` with [Clamp]: rounds to the nearest safe integer, ties to even.
  function clamped(value) {
    const number = +value;
    if (NumberIsNaN(number)) return 0;
    const bounded = MathMin(MathMax(number, -(2 ** 53 - 1)), 2 ** 53 - 1);
    const below = MathFloor(bounded);
    const over = bounded - below;
    return (over > 0.5 || (over === 0.5 && below % 2 !== 0) ? below + 1 : below) + 0;
  }

  // Converts to a finite `double`.
  function finite(value, what) {
    const number = +value;
    if (!NumberIsFinite(number)) throw new TypeError(`${what}: ${number} is not a finite number`);
    return number;
  }

  // Converts to an integer with [EnforceRange]; throws unless it is from 0 to `maximum`.
  function enforced(value, maximum, what) {
    const number = +value;
    const integer = MathTrunc(number);
    if (!NumberIsFinite(number) || integer < 0 || integer > maximum) {
      throw new TypeError(`${what}: ${number} is not in the range 0 to ${maximum}`);
    }
    return integer + 0;
  }

  // Returns a Uint8Array over the memory of a BufferSource, or null for other values. Throws if the
  // buffer is detached. Runs no tenant code.
  function bufferSource(value) {
    if (ArrayBufferIsView(value)) {
      return TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined
        ? new Uint8Array(TypedArrayPrototypeGetBuffer(value), TypedArrayPrototypeGetByteOffset(value),
          TypedArrayPrototypeGetByteLength(value))
        : new Uint8Array(DataViewPrototypeGetBuffer(value), DataViewPrototypeGetByteOffset(value),
          DataViewPrototypeGetByteLength(value));
    }
    try {
      ArrayBufferPrototypeGetByteLength(value);
    } catch {
      return null;
    }
    return new Uint8Array(value);
  }

  const NOTHING = ObjectFreeze({ __proto__: null });
  function dictionary(value, what) {
    if (value === undefined || value === null) return NOTHING;
    if (!isObject(value)) throw new TypeError(`${what}: options must be an object`);
    return value;
  }

  function enumeration(value, allowed, what) {
    const string = DOMString(value);
    if (!ArrayPrototypeIncludes(allowed, string)) {
      throw new TypeError(`${what}: '${string}' is not a valid value`);
    }
    return string;
  }

  // Converts to a `sequence<T>`. Runs the tenant's iterator.
  function sequence(value, convert, what) {
    if (!isObject(value) || typeof value[SymbolIterator] !== "function") {
      throw new TypeError(`${what}: the argument is not a sequence`);
    }
    const list = [];
    for (const item of value) list[list.length] = convert(item);
    return list;
  }

  // Converts a `sequence<sequence<T>>` of pairs, or a `record<T, T>`, to one flat list of names and
  // values. Runs the tenant's iterators and getters, as the standard requires.
  function pairs(init, convert, what) {
    const flat = [];
    const method = init[SymbolIterator];
    if (method !== undefined && method !== null) {
      if (typeof method !== "function") throw new TypeError(`${what}: not iterable`);
      for (const pair of init) {
        if (!isObject(pair)) throw new TypeError(`${what}: each item must be a pair of a name and a value`);
        const start = flat.length;
        for (const part of pair) flat[flat.length] = convert(part, what);
        if (flat.length !== start + 2) {
          throw new TypeError(`${what}: each item must be a pair of a name and a value`);
        }
      }
      return flat;
    }
    const keys = ReflectOwnKeys(init);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (!ObjectPrototypePropertyIsEnumerable(init, key)) continue;
      const name = convert(key, what);
      const value = convert(init[key], what);
      // Conversion may make two keys equal; the later value then replaces the earlier one.
      let at = flat.length;
      if (name !== key) {
        for (let j = 0; j < flat.length; j += 2) if (flat[j] === name) at = j;
      }
      flat[at] = name;
      flat[at + 1] = value;
    }
    return flat;
  }

  // ---- Interfaces

  // The prototypes of all interfaces that have been exposed so far.
  const interfaces = [];
  internal.interfaces = interfaces;

  // Turns a class into an interface: makes its members enumerable, tags it with its name, and
  // defines `constants` on the class and its prototype.
  function expose(constructor, constants = NOTHING) {
    const { prototype, name } = constructor;
    interfaces[interfaces.length] = prototype;
    const enumerable = { __proto__: null, enumerable: true };
    const members = ReflectOwnKeys(prototype);
    for (let i = 0; i < members.length; i++) {
      const key = members[i];
      if (typeof key === "string" && key !== "constructor") ObjectDefineProperty(prototype, key, enumerable);
    }
    const statics = ReflectOwnKeys(constructor);
    for (let i = 0; i < statics.length; i++) {
      const key = statics[i];
      if (typeof key === "string" && key !== "length" && key !== "name" && key !== "prototype") {
        ObjectDefineProperty(constructor, key, enumerable);
      }
    }
    const keys = ReflectOwnKeys(constants);
    for (let i = 0; i < keys.length; i++) {
      const constant = { __proto__: null, value: constants[keys[i]], enumerable: true };
      ObjectDefineProperty(constructor, keys[i], constant);
      ObjectDefineProperty(prototype, keys[i], constant);
    }
    ObjectDefineProperty(prototype, SymbolToStringTag, { __proto__: null, value: name, configurable: true });
    // V8 keeps the properties of an unused prototype in a dictionary and would convert it in each
    // isolate. This use of the prototype converts the dictionary now.
    ({ __proto__: prototype }).constructor;
  }

  // Adds the members of `iterable<K, V>` to a class. `read(object)` checks the brand and returns
  // the current flat list [key, value, …].
  function iterable(constructor, read) {
    const KEYS = 0, VALUES = 1, ENTRIES = 2;
    class PairIterator {
      #target;
      #kind;
      #at = 0;
      constructor(target, kind) {
        this.#target = target;
        this.#kind = kind;
      }
      next() {
        const list = read(this.#target);
        const at = this.#at;
        if (at >= list.length) return { value: undefined, done: true };
        this.#at = at + 2;
        const kind = this.#kind;
        const value = kind === KEYS ? list[at] : kind === VALUES ? list[at + 1] : [list[at], list[at + 1]];
        return { value, done: false };
      }
    }
    delete /** @type {any} */ (PairIterator.prototype).constructor;
    ObjectSetPrototypeOf(PairIterator.prototype, IteratorPrototype);
    ObjectDefineProperty(PairIterator.prototype, "next", { __proto__: null, enumerable: true });
    const tag = { __proto__: null, value: `${constructor.name} Iterator`, configurable: true };
    ObjectDefineProperty(PairIterator.prototype, SymbolToStringTag, tag);

    const members = {
      entries() {
        read(this);
        return new PairIterator(this, ENTRIES);
      },
      keys() {
        read(this);
        return new PairIterator(this, KEYS);
      },
      values() {
        read(this);
        return new PairIterator(this, VALUES);
      },
      forEach(callback, thisArg = undefined) {
        let list = read(this);
        needs(arguments.length, 1, `${constructor.name}.forEach`);
        if (typeof callback !== "function") {
          throw new TypeError(`${constructor.name}.forEach: the callback is not a function`);
        }
        for (let i = 0; i < list.length; i += 2) {
          ReflectApply(callback, thisArg, [list[i + 1], list[i], this]);
          list = read(this);
        }
      },
    };
    for (const key of ReflectOwnKeys(members)) {
      const member = { __proto__: null, value: members[key], writable: true, enumerable: true, configurable: true };
      ObjectDefineProperty(constructor.prototype, key, member);
    }
    const entries = { __proto__: null, value: members.entries, writable: true, configurable: true };
    ObjectDefineProperty(constructor.prototype, SymbolIterator, entries);
  }

  // Returns the value that an `on…` attribute stores.
  const handler = (value) => (isObject(value) ? value : null);

  internal.webidl = ObjectFreeze({
    __proto__: null,
    isObject, needs, DOMString, USVString, ByteString, unsigned, longLong, clamped, finite, enforced, bufferSource,
    dictionary, enumeration, sequence, pairs, handler, expose, iterable,
  });
})
