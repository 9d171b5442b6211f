// The functions of arrays, of what is like an array, and of the many items of `Promise.all` and its like (see bounds.js).
// They go over as many places as a `length` says, which may be 2⁵³ − 1 for an object that has none of them.
(function (internal) {
  "use strict";

  const {
    Array, ArrayIsArray, ArrayPrototype, Object, Promise, Proxy, RangeError, ReflectApply, ReflectDeleteProperty, ReflectGet,
    ReflectGetOwnPropertyDescriptor, ReflectHas, ReflectSet, String, SymbolIterator, TypedArray,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeJoin, TypedArrayPrototypeToLocaleString,
  } = internal.primordials;
  const { each, isProxy, refuse, replace } = internal.bounds;

  // An array of this length goes through natively in some hundredths of a second at worst; of a longer one, or of what is
  // no array, each place is a call.
  const MANY = 2 ** 21;
  // The same where each place is a string to be made, by the rules of a language at worst.
  const MANY_NUMBERS = 2 ** 20;
  const MANY_WORDS = 2 ** 12;
  // What has more places than this has holes, and nobody needs them visited.
  const TOO_MANY = 2 ** 25;

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

  // Once optimised, a trap that only calls native code has been seen to go on after a termination; one that loops, an
  // unknown number of times, less so.
  let once = 1;
  // The receiver of every access is the object itself, as if there were no proxy.
  const traps = {
    __proto__: null,
    get(target, key) {
      for (let i = 0; i < once; i++);
      return key === "length" ? lengthOf(target) : ReflectGet(target, key);
    },
    has(target, key) {
      for (let i = 0; i < once; i++);
      return ReflectHas(target, key);
    },
    set(target, key, value) {
      for (let i = 0; i < once; i++);
      return ReflectSet(target, key, value);
    },
    deleteProperty(target, key) {
      for (let i = 0; i < once; i++);
      return ReflectDeleteProperty(target, key);
    },
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
    copyWithin, every, fill, filter, find, findIndex, findLast, findLastIndex, forEach, join, map, reduce, reduceRight,
    reverse, shift, slice, some, splice, toLocaleString, toReversed, toSpliced, unshift, with: withAt,
  } = ArrayPrototype;
  replace(ArrayPrototype, {
    copyWithin(target, start) { return isBounded(this) ? ReflectApply(copyWithin, this, arguments) : visit(copyWithin, this, arguments); },
    every(callback) { return isBounded(this) ? ReflectApply(every, this, arguments) : visit(every, this, arguments); },
    fill(value) { return isBounded(this) ? ReflectApply(fill, this, arguments) : visit(fill, this, arguments); },
    filter(callback) { return isBounded(this) ? ReflectApply(filter, this, arguments) : visit(filter, this, arguments); },
    find(callback) { return isBounded(this) ? ReflectApply(find, this, arguments) : visit(find, this, arguments); },
    findIndex(callback) { return isBounded(this) ? ReflectApply(findIndex, this, arguments) : visit(findIndex, this, arguments); },
    findLast(callback) { return isBounded(this) ? ReflectApply(findLast, this, arguments) : visit(findLast, this, arguments); },
    findLastIndex(callback) { return isBounded(this) ? ReflectApply(findLastIndex, this, arguments) : visit(findLastIndex, this, arguments); },
    forEach(callback) { return isBounded(this) ? ReflectApply(forEach, this, arguments) : visit(forEach, this, arguments); },
    join(separator) { return isBounded(this) ? ReflectApply(join, this, arguments) : visit(join, this, arguments); },
    map(callback) { return isBounded(this) ? ReflectApply(map, this, arguments) : visit(map, this, arguments); },
    reduce(callback) { return isBounded(this) ? ReflectApply(reduce, this, arguments) : visit(reduce, this, arguments); },
    reduceRight(callback) { return isBounded(this) ? ReflectApply(reduceRight, this, arguments) : visit(reduceRight, this, arguments); },
    reverse() { return isBounded(this) ? ReflectApply(reverse, this, arguments) : visit(reverse, this, arguments); },
    shift() { return isBounded(this) ? ReflectApply(shift, this, arguments) : visit(shift, this, arguments); },
    slice(start, end) { return isBounded(this) ? ReflectApply(slice, this, arguments) : visit(slice, this, arguments); },
    some(callback) { return isBounded(this) ? ReflectApply(some, this, arguments) : visit(some, this, arguments); },
    splice(start, count) { return isBounded(this) ? ReflectApply(splice, this, arguments) : visit(splice, this, arguments); },
    toLocaleString() { return isBounded(this) && this.length <= MANY_WORDS ? ReflectApply(toLocaleString, this, arguments) : visit(toLocaleString, this, arguments); },
    toReversed() { return isBounded(this) ? ReflectApply(toReversed, this, arguments) : visit(toReversed, this, arguments); },
    toSpliced(start, count) { return isBounded(this) ? ReflectApply(toSpliced, this, arguments) : visit(toSpliced, this, arguments); },
    unshift(element) { return isBounded(this) ? ReflectApply(unshift, this, arguments) : visit(unshift, this, arguments); },
    with(index, value) { return isBounded(this) ? ReflectApply(withAt, this, arguments) : visit(withAt, this, arguments); },
  });

  const { from } = Array;
  replace(Array, {
    from(items, ...rest) {
      const isLike = !isBounded(items) && items !== undefined && items !== null &&
        (items[SymbolIterator] === undefined || items[SymbolIterator] === null);
      return ReflectApply(from, this, isLike ? [disguise(items), ...rest] : [items, ...rest]);
    },
  });

  // An array of numbers has no holes, and its length is its own.
  replace(TypedArray.prototype, {
    join(separator) {
      const length = TypedArrayPrototypeGetLength(this);
      return length <= MANY_NUMBERS ? TypedArrayPrototypeJoin(this, separator) : refuse("A list", length);
    },
    toLocaleString() {
      const length = TypedArrayPrototypeGetLength(this);
      return length <= MANY_WORDS ? TypedArrayPrototypeToLocaleString(this, arguments[0], arguments[1]) : refuse("A list", length);
    },
  });

  const { raw } = String;
  replace(String, {
    raw(template, ...values) {
      const parts = template?.raw;
      const bounded = parts === undefined || parts === null || isBounded(parts);
      return ReflectApply(raw, this, [bounded ? template : { raw: disguise(parts) }, ...values]);
    },
  });

  // ---- Promises of many

  const stepped = (items) => [isBounded(items) ? items : each(items)];
  const { all, allSettled, any, race } = Promise;
  replace(Promise, {
    all(items) { return ReflectApply(all, this, stepped(items)); },
    allSettled(items) { return ReflectApply(allSettled, this, stepped(items)); },
    any(items) { return ReflectApply(any, this, stepped(items)); },
    race(items) { return ReflectApply(race, this, stepped(items)); },
  });

  internal.bounds.places = { __proto__: null, MANY, disguise, isBounded, lengthOf, visit };
})
