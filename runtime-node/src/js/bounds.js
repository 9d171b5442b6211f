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
    ReflectGetOwnPropertyDescriptor, ReflectHas, ReflectOwnKeys, ReflectSet, String, StringPrototype, SymbolIterator,
    TypeError, WeakSet, WeakSetPrototypeAdd, WeakSetPrototypeHas,
  } = internal.primordials;

  // An array of this length goes through natively in some tenths of a second at worst; of a longer one, or of what is
  // no array, each place is a call.
  const MANY = 2 ** 22;
  // What has more places than this has holes, and nobody needs them visited.
  const TOO_MANY = 2 ** 25;
  // A longer string comes of a doubling loop. Some functions of strings take a minute for one, or end the process.
  const TOO_LONG = 2 ** 25;

  // Puts `made`, named and described as what it replaces, in place of functions of `object`.
  function replaceAll(object, made) {
    const names = ReflectOwnKeys(made);
    for (let i = 0; i < names.length; i++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(object, names[i]);
      const value = made[names[i]];
      const length = { __proto__: null, value: descriptor.value.length, configurable: true };
      ReflectDefineProperty(value, "length", length);
      descriptor.value = value;
      ObjectDefineProperty(object, names[i], descriptor);
    }
  }

  // ---- Proxies

  // All there are; null until the first is made, so that who makes none pays nothing.
  let marked = null;
  const isProxy = (value) => marked !== null && WeakSetPrototypeHas(marked, value);
  function mark(proxy) {
    marked ??= new WeakSet();
    WeakSetPrototypeAdd(marked, proxy);
    return proxy;
  }

  function construct(target, handler) {
    if (new.target === undefined) throw new TypeError("Constructor Proxy requires 'new'");
    return mark(new Proxy(target, handler));
  }
  // Bound, because `Proxy` has no property `prototype`.
  const proxies = FunctionPrototypeBind(construct, undefined);
  ObjectDefineProperty(proxies, "name", { __proto__: null, value: "Proxy", configurable: true });
  const { revocable } = {
    revocable(target, handler) {
      const made = ProxyRevocable(target, handler);
      mark(made.proxy);
      return made;
    },
  };
  ObjectDefineProperty(proxies, "revocable", { __proto__: null, value: revocable, writable: true, configurable: true });
  internal.globals({ Proxy: proxies });

  // ---- Arrays

  // Whether native code may be let loose on it: its length is what it seems, and not too much.
  const isBounded = (value) => (ArrayIsArray(value) ? !isProxy(value) && value.length <= MANY : isBoundedLike(value));

  function isBoundedLike(value) {
    if (typeof value === "string") return value.length <= MANY;
    if (typeof value !== "object" || value === null || isProxy(value)) return false;
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

  function visit(native, value, args) {
    if (value === undefined || value === null) return ReflectApply(native, value, args);
    const disguised = disguise(value);
    const result = ReflectApply(native, disguised, args);
    return result === disguised ? value : result;
  }

  // Each written out, so that the optimiser sees through it.
  const {
    copyWithin, every, fill, filter, find, findIndex, findLast, findLastIndex, flat, flatMap, forEach, includes, indexOf,
    join, lastIndexOf, map, reduce, reduceRight, reverse, shift, slice, some, sort, splice, toLocaleString, toReversed,
    toSorted, toSpliced, unshift, with: withAt,
  } = ArrayPrototype;
  replaceAll(ArrayPrototype, {
    copyWithin(...args) { return isBounded(this) ? ReflectApply(copyWithin, this, args) : visit(copyWithin, this, args); },
    every(...args) { return isBounded(this) ? ReflectApply(every, this, args) : visit(every, this, args); },
    fill(...args) { return isBounded(this) ? ReflectApply(fill, this, args) : visit(fill, this, args); },
    filter(...args) { return isBounded(this) ? ReflectApply(filter, this, args) : visit(filter, this, args); },
    find(...args) { return isBounded(this) ? ReflectApply(find, this, args) : visit(find, this, args); },
    findIndex(...args) { return isBounded(this) ? ReflectApply(findIndex, this, args) : visit(findIndex, this, args); },
    findLast(...args) { return isBounded(this) ? ReflectApply(findLast, this, args) : visit(findLast, this, args); },
    findLastIndex(...args) { return isBounded(this) ? ReflectApply(findLastIndex, this, args) : visit(findLastIndex, this, args); },
    flat(...args) { return isBounded(this) ? ReflectApply(flat, this, args) : visit(flat, this, args); },
    flatMap(...args) { return isBounded(this) ? ReflectApply(flatMap, this, args) : visit(flatMap, this, args); },
    forEach(...args) { return isBounded(this) ? ReflectApply(forEach, this, args) : visit(forEach, this, args); },
    includes(...args) { return isBounded(this) ? ReflectApply(includes, this, args) : visit(includes, this, args); },
    indexOf(...args) { return isBounded(this) ? ReflectApply(indexOf, this, args) : visit(indexOf, this, args); },
    join(...args) { return isBounded(this) ? ReflectApply(join, this, args) : visit(join, this, args); },
    lastIndexOf(...args) { return isBounded(this) ? ReflectApply(lastIndexOf, this, args) : visit(lastIndexOf, this, args); },
    map(...args) { return isBounded(this) ? ReflectApply(map, this, args) : visit(map, this, args); },
    reduce(...args) { return isBounded(this) ? ReflectApply(reduce, this, args) : visit(reduce, this, args); },
    reduceRight(...args) { return isBounded(this) ? ReflectApply(reduceRight, this, args) : visit(reduceRight, this, args); },
    reverse(...args) { return isBounded(this) ? ReflectApply(reverse, this, args) : visit(reverse, this, args); },
    shift(...args) { return isBounded(this) ? ReflectApply(shift, this, args) : visit(shift, this, args); },
    slice(...args) { return isBounded(this) ? ReflectApply(slice, this, args) : visit(slice, this, args); },
    some(...args) { return isBounded(this) ? ReflectApply(some, this, args) : visit(some, this, args); },
    sort(...args) { return isBounded(this) ? ReflectApply(sort, this, args) : visit(sort, this, args); },
    splice(...args) { return isBounded(this) ? ReflectApply(splice, this, args) : visit(splice, this, args); },
    toLocaleString(...args) { return isBounded(this) ? ReflectApply(toLocaleString, this, args) : visit(toLocaleString, this, args); },
    toReversed(...args) { return isBounded(this) ? ReflectApply(toReversed, this, args) : visit(toReversed, this, args); },
    toSorted(...args) { return isBounded(this) ? ReflectApply(toSorted, this, args) : visit(toSorted, this, args); },
    toSpliced(...args) { return isBounded(this) ? ReflectApply(toSpliced, this, args) : visit(toSpliced, this, args); },
    unshift(...args) { return isBounded(this) ? ReflectApply(unshift, this, args) : visit(unshift, this, args); },
    with(...args) { return isBounded(this) ? ReflectApply(withAt, this, args) : visit(withAt, this, args); },
  });

  const { from } = Array;
  replaceAll(Array, {
    from(items, ...rest) {
      const isLike = !isBounded(items) && items !== undefined && items !== null &&
        (items[SymbolIterator] === undefined || items[SymbolIterator] === null);
      return ReflectApply(from, this, isLike ? [disguise(items), ...rest] : [items, ...rest]);
    },
  });

  // ---- Promises of many

  // The same items, each of which takes a step of ours.
  function* each(items) {
    for (const item of items) yield item;
  }
  const stepped = (items) => [isBounded(items) ? items : each(items)];
  const { all, allSettled, any, race } = Promise;
  replaceAll(Promise, {
    all(items) { return ReflectApply(all, this, stepped(items)); },
    allSettled(items) { return ReflectApply(allSettled, this, stepped(items)); },
    any(items) { return ReflectApply(any, this, stepped(items)); },
    race(items) { return ReflectApply(race, this, stepped(items)); },
  });

  // ---- Strings

  const { raw } = String;
  replaceAll(String, {
    raw(template, ...values) {
      const parts = template?.raw;
      const bounded = parts === undefined || parts === null || isBounded(parts);
      return ReflectApply(raw, this, [bounded ? template : { raw: disguise(parts) }, ...values]);
    },
  });

  function isShort(value) {
    if (typeof value === "string" && value.length > TOO_LONG) {
      throw new RangeError(`A string of ${value.length} characters is too long`);
    }
    return typeof value === "string";
  }
  function read(native, value, args) {
    if (value === undefined || value === null) return ReflectApply(native, value, args);
    const string = `${value}`;
    isShort(string);
    return ReflectApply(native, string, args);
  }
  const {
    localeCompare, match, matchAll, normalize, replace, replaceAll: replaceEach, search, split, toLocaleLowerCase,
    toLocaleUpperCase, toLowerCase, toUpperCase, toWellFormed,
  } = StringPrototype;
  replaceAll(StringPrototype, {
    localeCompare(...args) { return isShort(this) ? ReflectApply(localeCompare, this, args) : read(localeCompare, this, args); },
    match(...args) { return isShort(this) ? ReflectApply(match, this, args) : read(match, this, args); },
    matchAll(...args) { return isShort(this) ? ReflectApply(matchAll, this, args) : read(matchAll, this, args); },
    normalize(...args) { return isShort(this) ? ReflectApply(normalize, this, args) : read(normalize, this, args); },
    replace(...args) { return isShort(this) ? ReflectApply(replace, this, args) : read(replace, this, args); },
    replaceAll(...args) { return isShort(this) ? ReflectApply(replaceEach, this, args) : read(replaceEach, this, args); },
    search(...args) { return isShort(this) ? ReflectApply(search, this, args) : read(search, this, args); },
    split(...args) { return isShort(this) ? ReflectApply(split, this, args) : read(split, this, args); },
    toLocaleLowerCase(...args) { return isShort(this) ? ReflectApply(toLocaleLowerCase, this, args) : read(toLocaleLowerCase, this, args); },
    toLocaleUpperCase(...args) { return isShort(this) ? ReflectApply(toLocaleUpperCase, this, args) : read(toLocaleUpperCase, this, args); },
    toLowerCase(...args) { return isShort(this) ? ReflectApply(toLowerCase, this, args) : read(toLowerCase, this, args); },
    toUpperCase(...args) { return isShort(this) ? ReflectApply(toUpperCase, this, args) : read(toUpperCase, this, args); },
    toWellFormed(...args) { return isShort(this) ? ReflectApply(toWellFormed, this, args) : read(toWellFormed, this, args); },
  });
})
