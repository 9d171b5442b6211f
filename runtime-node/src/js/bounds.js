// Built-in functions that take as long as they are told to. V8 looks for a request to terminate where JavaScript is
// called and where it loops; the functions here loop in native code over as many places as a `length` says, which may
// be 2⁵³ − 1 for an object that has none of them, and some end the process when they cannot make room for so many. An
// array of reasonable length is handed straight on. Anything else goes in disguise: as a proxy each of whose traps is a
// function of ours, so that every step of the loop is a call, where a termination strikes.
//
// For this, proxies must be known from arrays: one can say that it has a length of 1, and then of 2⁵³ − 1.
(function (internal) {
  "use strict";

  const {
    Array, ArrayIsArray, ArrayPrototype, FunctionPrototypeBind, Object, ObjectDefineProperty, Promise, Proxy,
    ProxyRevocable, RangeError, ReflectApply, ReflectDefineProperty, ReflectDeleteProperty, ReflectGet,
    ReflectGetOwnPropertyDescriptor, ReflectHas, ReflectSet, String, StringPrototype, SymbolIterator, TypeError,
  } = internal.primordials;

  // An array of this length goes through natively in some tenths of a second at worst; of a longer one, or of what is
  // no array, each place is a call.
  const MANY = 2 ** 22;
  // What has more places than this has holes, and nobody needs them visited.
  const TOO_MANY = 2 ** 25;
  // A longer string comes of a doubling loop. Some functions of strings take a minute for one, or end the process.
  const TOO_LONG = 2 ** 25;

  function replace(object, name, make) {
    const descriptor = ReflectGetOwnPropertyDescriptor(object, name);
    if (descriptor === undefined) return;
    const native = descriptor.value;
    const made = make(native, name);
    ReflectDefineProperty(made, "length", { __proto__: null, value: native.length, configurable: true });
    ReflectDefineProperty(made, "name", { __proto__: null, value: native.name, configurable: true });
    descriptor.value = made;
    ObjectDefineProperty(object, name, descriptor);
  }

  // ---- Proxies

  // Puts a private field on an object that is there already.
  class Mark extends class { constructor(object) { return object; } } {
    #proxy;
    static is(value) {
      return #proxy in value;
    }
  }

  function construct(target, handler) {
    if (new.target === undefined) throw new TypeError("Constructor Proxy requires 'new'");
    const proxy = new Proxy(target, handler);
    new Mark(proxy);
    return proxy;
  }
  // Bound, because `Proxy` has no property `prototype`.
  const proxies = FunctionPrototypeBind(construct, undefined);
  ObjectDefineProperty(proxies, "name", { __proto__: null, value: "Proxy", configurable: true });
  const { revocable } = {
    revocable(target, handler) {
      const made = ProxyRevocable(target, handler);
      new Mark(made.proxy);
      return made;
    },
  };
  ObjectDefineProperty(proxies, "revocable", { __proto__: null, value: revocable, writable: true, configurable: true });
  internal.globals({ Proxy: proxies });

  // ---- Arrays

  // Whether native code may be let loose on it: its length is what it seems, and not too much.
  function isBounded(value) {
    if (typeof value === "string") return value.length <= MANY;
    if (typeof value !== "object" || value === null || Mark.is(value)) return false;
    if (ArrayIsArray(value)) return value.length <= MANY;
    const length = ReflectGetOwnPropertyDescriptor(value, "length")?.value;
    return typeof length === "number" && length <= MANY;
  }

  function lengthOf(object) {
    const length = +ReflectGet(object, "length");
    if (length > TOO_MANY) throw new RangeError(`A length of ${length} is too much to go through`);
    return length;
  }

  // The receiver of every access is the object itself, as if there were no proxy.
  const traps = {
    __proto__: null,
    get: (target, key) => (key === "length" ? lengthOf(target) : ReflectGet(target, key)),
    has: (target, key) => ReflectHas(target, key),
    set: (target, key, value) => ReflectSet(target, key, value),
    deleteProperty: (target, key) => ReflectDeleteProperty(target, key),
  };
  const disguise = (value) => new Proxy(Object(value), traps);

  for (const name of [
    "copyWithin", "every", "fill", "filter", "find", "findIndex", "findLast", "findLastIndex", "flat", "flatMap",
    "forEach", "includes", "indexOf", "join", "lastIndexOf", "map", "reduce", "reduceRight", "reverse", "shift", "slice",
    "some", "sort", "splice", "toLocaleString", "toReversed", "toSorted", "toSpliced", "unshift", "with",
  ]) {
    replace(ArrayPrototype, name, (native) => ({
      [name](...args) {
        if (isBounded(this) || this === undefined || this === null) return ReflectApply(native, this, args);
        const disguised = disguise(this);
        const result = ReflectApply(native, disguised, args);
        return result === disguised ? this : result;
      },
    })[name]);
  }

  replace(Array, "from", (from) => ({
    from(items, ...rest) {
      const isLike = !isBounded(items) && items !== undefined && items !== null &&
        (items[SymbolIterator] === undefined || items[SymbolIterator] === null);
      return ReflectApply(from, this, isLike ? [disguise(items), ...rest] : [items, ...rest]);
    },
  }).from);

  // ---- Promises of many

  // The same items, each of which takes a step of ours.
  function* each(items) {
    for (const item of items) yield item;
  }
  for (const name of ["all", "allSettled", "any", "race"]) {
    replace(Promise, name, (native) => ({
      [name](items) {
        return ReflectApply(native, this, [isBounded(items) ? items : each(items)]);
      },
    })[name]);
  }

  // ---- Strings

  replace(String, "raw", (raw) => ({
    raw(template, ...values) {
      const parts = template?.raw;
      const bounded = parts === undefined || parts === null || isBounded(parts);
      return ReflectApply(raw, this, [bounded ? template : { raw: disguise(parts) }, ...values]);
    },
  }).raw);

  for (const name of [
    "localeCompare", "match", "matchAll", "normalize", "replace", "replaceAll", "search", "split", "toLocaleLowerCase",
    "toLocaleUpperCase", "toLowerCase", "toUpperCase", "toWellFormed",
  ]) {
    replace(StringPrototype, name, (native) => ({
      [name](...args) {
        const string = typeof this === "string" || this === undefined || this === null ? this : `${this}`;
        if (string?.length > TOO_LONG) throw new RangeError(`A string of ${string.length} characters is too long`);
        return ReflectApply(native, string, args);
      },
    })[name]);
  }
})
