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
    ProxyRevocable, RangeError, ReflectApply, ReflectDeleteProperty, ReflectGet,
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

  // Puts `made`, of the same names and lengths and described as what it replaces, in place of functions of `object`.
  // (A length that is set afterwards would cost each function, in each isolate, a dictionary of properties.)
  function replaceAll(object, made) {
    const names = ReflectOwnKeys(made);
    for (let i = 0; i < names.length; i++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(object, names[i]);
      const value = made[names[i]];
      if (value.length !== descriptor.value.length) throw new TypeError(`${names[i]} has another length`);
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
    copyWithin(target, start) { return isBounded(this) ? ReflectApply(copyWithin, this, arguments) : visit(copyWithin, this, arguments); },
    every(callback) { return isBounded(this) ? ReflectApply(every, this, arguments) : visit(every, this, arguments); },
    fill(value) { return isBounded(this) ? ReflectApply(fill, this, arguments) : visit(fill, this, arguments); },
    filter(callback) { return isBounded(this) ? ReflectApply(filter, this, arguments) : visit(filter, this, arguments); },
    find(callback) { return isBounded(this) ? ReflectApply(find, this, arguments) : visit(find, this, arguments); },
    findIndex(callback) { return isBounded(this) ? ReflectApply(findIndex, this, arguments) : visit(findIndex, this, arguments); },
    findLast(callback) { return isBounded(this) ? ReflectApply(findLast, this, arguments) : visit(findLast, this, arguments); },
    findLastIndex(callback) { return isBounded(this) ? ReflectApply(findLastIndex, this, arguments) : visit(findLastIndex, this, arguments); },
    flat() { return isBounded(this) ? ReflectApply(flat, this, arguments) : visit(flat, this, arguments); },
    flatMap(callback) { return isBounded(this) ? ReflectApply(flatMap, this, arguments) : visit(flatMap, this, arguments); },
    forEach(callback) { return isBounded(this) ? ReflectApply(forEach, this, arguments) : visit(forEach, this, arguments); },
    includes(element) { return isBounded(this) ? ReflectApply(includes, this, arguments) : visit(includes, this, arguments); },
    indexOf(element) { return isBounded(this) ? ReflectApply(indexOf, this, arguments) : visit(indexOf, this, arguments); },
    join(separator) { return isBounded(this) ? ReflectApply(join, this, arguments) : visit(join, this, arguments); },
    lastIndexOf(element) { return isBounded(this) ? ReflectApply(lastIndexOf, this, arguments) : visit(lastIndexOf, this, arguments); },
    map(callback) { return isBounded(this) ? ReflectApply(map, this, arguments) : visit(map, this, arguments); },
    reduce(callback) { return isBounded(this) ? ReflectApply(reduce, this, arguments) : visit(reduce, this, arguments); },
    reduceRight(callback) { return isBounded(this) ? ReflectApply(reduceRight, this, arguments) : visit(reduceRight, this, arguments); },
    reverse() { return isBounded(this) ? ReflectApply(reverse, this, arguments) : visit(reverse, this, arguments); },
    shift() { return isBounded(this) ? ReflectApply(shift, this, arguments) : visit(shift, this, arguments); },
    slice(start, end) { return isBounded(this) ? ReflectApply(slice, this, arguments) : visit(slice, this, arguments); },
    some(callback) { return isBounded(this) ? ReflectApply(some, this, arguments) : visit(some, this, arguments); },
    sort(compare) { return isBounded(this) ? ReflectApply(sort, this, arguments) : visit(sort, this, arguments); },
    splice(start, count) { return isBounded(this) ? ReflectApply(splice, this, arguments) : visit(splice, this, arguments); },
    toLocaleString() { return isBounded(this) ? ReflectApply(toLocaleString, this, arguments) : visit(toLocaleString, this, arguments); },
    toReversed() { return isBounded(this) ? ReflectApply(toReversed, this, arguments) : visit(toReversed, this, arguments); },
    toSorted(compare) { return isBounded(this) ? ReflectApply(toSorted, this, arguments) : visit(toSorted, this, arguments); },
    toSpliced(start, count) { return isBounded(this) ? ReflectApply(toSpliced, this, arguments) : visit(toSpliced, this, arguments); },
    unshift(element) { return isBounded(this) ? ReflectApply(unshift, this, arguments) : visit(unshift, this, arguments); },
    with(index, value) { return isBounded(this) ? ReflectApply(withAt, this, arguments) : visit(withAt, this, arguments); },
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
    localeCompare(other) { return isShort(this) ? ReflectApply(localeCompare, this, arguments) : read(localeCompare, this, arguments); },
    match(pattern) { return isShort(this) ? ReflectApply(match, this, arguments) : read(match, this, arguments); },
    matchAll(pattern) { return isShort(this) ? ReflectApply(matchAll, this, arguments) : read(matchAll, this, arguments); },
    normalize() { return isShort(this) ? ReflectApply(normalize, this, arguments) : read(normalize, this, arguments); },
    replace(pattern, by) { return isShort(this) ? ReflectApply(replace, this, arguments) : read(replace, this, arguments); },
    replaceAll(pattern, by) { return isShort(this) ? ReflectApply(replaceEach, this, arguments) : read(replaceEach, this, arguments); },
    search(pattern) { return isShort(this) ? ReflectApply(search, this, arguments) : read(search, this, arguments); },
    split(separator, limit) { return isShort(this) ? ReflectApply(split, this, arguments) : read(split, this, arguments); },
    toLocaleLowerCase() { return isShort(this) ? ReflectApply(toLocaleLowerCase, this, arguments) : read(toLocaleLowerCase, this, arguments); },
    toLocaleUpperCase() { return isShort(this) ? ReflectApply(toLocaleUpperCase, this, arguments) : read(toLocaleUpperCase, this, arguments); },
    toLowerCase() { return isShort(this) ? ReflectApply(toLowerCase, this, arguments) : read(toLowerCase, this, arguments); },
    toUpperCase() { return isShort(this) ? ReflectApply(toUpperCase, this, arguments) : read(toUpperCase, this, arguments); },
    toWellFormed() { return isShort(this) ? ReflectApply(toWellFormed, this, arguments) : read(toWellFormed, this, arguments); },
  });
})
