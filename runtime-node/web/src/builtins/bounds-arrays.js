// Built-in functions of arrays and array-likes, and the Promise combinators (see bounds.js). The
// functions of arrays visit all indices below `length`, which may be 2⁵³ − 1 for an object without
// elements.
//: after bounds-long-arrays.js
(function (internal) {
  "use strict";

  const {
    Array, ArrayIsArray, ArrayPrototype, MathMin, Object, Promise, Proxy, RangeError, ReflectApply,
    ReflectDeleteProperty, ReflectGet, ReflectGetOwnPropertyDescriptor, ReflectHas, ReflectSet, String, SymbolIterator, TypedArray,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeJoin, TypedArrayPrototypeToLocaleString,
  } = internal.primordials;
  const { each, isProxy, refuse, replace } = internal.bounds;
  const { TOO_MANY, isLong, loopOf, toIndex } = internal.bounds.long;

  // Native code visits an array of this length in tens of milliseconds at worst. A longer array is
  // visited in a JavaScript loop, if the function has one. Otherwise, and if the length of an
  // object is not reliable, the object is wrapped in a proxy, so that each access is a call.
  const MANY = 2 ** 21;
  // The limits on the length if each element is converted to a string, and if a locale's rules
  // apply.
  const MANY_NUMBERS = 2 ** 20;
  const MANY_WORDS = 2 ** 12;

  // Returns whether native code may visit the value: its length is reliable and at most MANY.
  const isBounded = (value) => (ArrayIsArray(value) ? !isProxy(value) && value.length <= MANY : isBoundedLike(value));

  function isBoundedLike(value) {
    if (typeof value === "string") return value.length <= MANY;
    if (typeof value !== "object" || value === null || isProxy(value)) return false;
    const length = ReflectGetOwnPropertyDescriptor(value, "length")?.value;
    return typeof length === "number" && length <= MANY;
  }

  function lengthOf(object) {
    const length = +ReflectGet(object, "length");
    if (length > TOO_MANY) throw new RangeError(`A length of ${length} is too large to process`);
    return length;
  }

  // In tests, optimized traps that only call native code sometimes continued after a termination. A
  // loop whose number of iterations the compiler does not know makes this rarer.
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
  const wrapInProxy = (value) => new Proxy(Object(value), traps);

  function visit(native, value, args) {
    const loop = isLong(value) ? loopOf(native) : undefined;
    if (loop !== undefined) return loop(value, args);
    if (value === undefined || value === null) return ReflectApply(native, value, args);
    const proxy = wrapInProxy(value);
    const result = ReflectApply(native, proxy, args);
    return result === proxy ? value : result;
  }

  // Fills an array in pieces, between which a termination takes effect.
  function fillPieces(array, value, start, end) {
    const { length } = array;
    const from = toIndex(start, length);
    const to = end === undefined ? length : toIndex(end, length);
    for (let i = from; i < to; i += MANY) ReflectApply(fill, array, [value, i, MathMin(i + MANY, to)]);
    return array;
  }

  // Each function is written out, so that the compiler can optimize it.
  const {
    copyWithin, every, fill, filter, find, findIndex, findLast, findLastIndex, forEach, join, map, reduce, reduceRight,
    reverse, shift, slice, some, splice, toLocaleString, toReversed, toSpliced, unshift, with: withAt,
  } = ArrayPrototype;
  replace(ArrayPrototype, {
    copyWithin(target, start) { return isBounded(this) ? ReflectApply(copyWithin, this, arguments) : visit(copyWithin, this, arguments); },
    every(callback) { return isBounded(this) ? ReflectApply(every, this, arguments) : visit(every, this, arguments); },
    fill(value) {
      if (isBounded(this)) return ReflectApply(fill, this, arguments);
      const isLong = ArrayIsArray(this) && !isProxy(this);
      return isLong ? fillPieces(this, value, arguments[1], arguments[2]) : visit(fill, this, arguments);
    },
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
      return ReflectApply(from, this, isLike ? [wrapInProxy(items), ...rest] : [items, ...rest]);
    },
  });

  // A typed array has no holes and cannot misreport its length.
  replace(TypedArray.prototype, {
    join(separator) {
      const length = TypedArrayPrototypeGetLength(this);
      return length <= MANY_NUMBERS ? TypedArrayPrototypeJoin(this, separator) : refuse("A typed array", length);
    },
    toLocaleString() {
      const length = TypedArrayPrototypeGetLength(this);
      return length <= MANY_WORDS ? TypedArrayPrototypeToLocaleString(this, arguments[0], arguments[1]) : refuse("A typed array", length);
    },
  });

  const { raw } = String;
  replace(String, {
    raw(template, ...values) {
      const parts = template?.raw;
      const bounded = parts === undefined || parts === null || isBounded(parts);
      return ReflectApply(raw, this, [bounded ? template : { raw: wrapInProxy(parts) }, ...values]);
    },
  });

  // ---- Promise combinators

  const stepped = (items) => [isBounded(items) ? items : each(items)];
  const { all, allSettled, any, race } = Promise;
  replace(Promise, {
    all(items) { return ReflectApply(all, this, stepped(items)); },
    allSettled(items) { return ReflectApply(allSettled, this, stepped(items)); },
    any(items) { return ReflectApply(any, this, stepped(items)); },
    race(items) { return ReflectApply(race, this, stepped(items)); },
  });

  internal.bounds.arrays = { __proto__: null, MANY, wrapInProxy, isBounded, lengthOf, visit };
})
